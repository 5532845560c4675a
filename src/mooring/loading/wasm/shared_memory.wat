;; The desk between the scheduler and a guest. Mooring lays out here what guests ask for over and over (the pod, the names
;; of the nodes, the nodes themselves), and the guest's questions are answered by copying from memory to memory: no call
;; leaves WebAssembly. `filter_all` and `score_all` go through many nodes in one call.
;;
;; Addresses of the desk's memory are those that desk.py uses: words 0 to 15 are registers, all else is where they say.
;;   0 pod   4 its length   8 slot of the node (-1: none)   12 table of slots
;;   16 next free byte for a reason   20 end of the room for reasons   24 where the last reason is   28 its length
;; A slot is four words: name, its length, node, its length.
(module
  (import "mooring" "switch" (table 4 funcref))
  (import "mooring" "node" (func $ask_host (param i32 i32 i32 i32) (result i32)))
  (import "mooring" "memory" (memory $desk 1))
  (import "guest" "memory" (memory $guest 0))
  (import "guest" "filter" (func $filter (result i32)))
  (import "guest" "score" (func $score (result i64)))

  ;; Copies what is at $from to the guest if it fits, and says how long it is.
  (func $copy (param $from i32) (param $length i32) (param $to i32) (param $limit i32) (result i32)
    (if (i32.le_u (local.get $length) (local.get $limit))
      (then (memory.copy $guest $desk (local.get $to) (local.get $from) (local.get $length))))
    (local.get $length))

  (func $slot (result i32)
    (i32.add (i32.load $desk (i32.const 12)) (i32.shl (i32.load $desk (i32.const 8)) (i32.const 4))))

  (func $current_pod (param $to i32) (param $limit i32) (result i32)
    (call $copy (i32.load $desk (i32.const 0)) (i32.load $desk (i32.const 4)) (local.get $to) (local.get $limit)))

  (func $current_node_name (param $to i32) (param $limit i32) (result i32)
    (if (i32.lt_s (i32.load $desk (i32.const 8)) (i32.const 0)) (then (return (i32.const 0))))
    (call $copy (i32.load $desk (call $slot)) (i32.load $desk offset=4 (call $slot))
      (local.get $to) (local.get $limit)))

  ;; Whether a name in the guest's memory is that of the node that is being looked at.
  (func $is_current (param $name i32) (param $length i32) (result i32) (local $other i32) (local $end i32)
    (if (i32.lt_s (i32.load $desk (i32.const 8)) (i32.const 0)) (then (return (i32.const 0))))
    (if (i32.ne (local.get $length) (i32.load $desk offset=4 (call $slot))) (then (return (i32.const 0))))
    (local.set $other (i32.load $desk (call $slot)))
    (local.set $end (i32.add (local.get $name) (local.get $length)))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $name) (local.get $end)))
        (if (i32.ne (i32.load8_u $guest (local.get $name)) (i32.load8_u $desk (local.get $other)))
          (then (return (i32.const 0))))
        (local.set $name (i32.add (local.get $name) (i32.const 1)))
        (local.set $other (i32.add (local.get $other) (i32.const 1)))
        (br $next)))
    (i32.const 1))

  (func $node (param $name i32) (param $length i32) (param $to i32) (param $limit i32) (result i32)
    (if (call $is_current (local.get $name) (local.get $length))
      (then
        (if (i32.load $desk offset=12 (call $slot))
          (then
            (return (call $copy (i32.load $desk offset=8 (call $slot)) (i32.load $desk offset=12 (call $slot))
              (local.get $to) (local.get $limit)))))))
    (call $ask_host (local.get $name) (local.get $length) (local.get $to) (local.get $limit)))

  ;; Keeps the last reason; what does not fit is cut off.
  (func $status_reason (param $from i32) (param $length i32) (local $room i32)
    (local.set $room (i32.sub (i32.load $desk (i32.const 20)) (i32.load $desk (i32.const 16))))
    (if (i32.gt_u (local.get $length) (local.get $room)) (then (local.set $length (local.get $room))))
    (memory.copy $desk $guest (i32.load $desk (i32.const 16)) (local.get $from) (local.get $length))
    (i32.store $desk (i32.const 24) (i32.load $desk (i32.const 16)))
    (i32.store $desk (i32.const 28) (local.get $length)))

  (elem (table 0) (i32.const 0) func $current_pod $current_node_name $node $status_reason)

  ;; Before a node is asked about: it is the current one, and nothing was said about it yet.
  (func $begin (param $slots i32) (param $index i32)
    (i32.store $desk (i32.const 8)
      (i32.load $desk (i32.add (local.get $slots) (i32.shl (local.get $index) (i32.const 2)))))
    (i32.store $desk (i32.const 28) (i32.const 0)))

  ;; After it: its reason stays, and where it is goes into the list of reasons.
  (func $end (param $reasons i32) (param $index i32) (local $at i32)
    (local.set $at (i32.add (local.get $reasons) (i32.shl (local.get $index) (i32.const 3))))
    (i32.store $desk (local.get $at) (i32.load $desk (i32.const 24)))
    (i32.store $desk offset=4 (local.get $at) (i32.load $desk (i32.const 28)))
    (i32.store $desk (i32.const 16) (i32.add (i32.load $desk (i32.const 16)) (i32.load $desk (i32.const 28)))))

  ;; Asks about nodes until all are answered for or one is an Error (1); says how many were answered for.
  (func (export "filter_all") (param $count i32) (param $slots i32) (param $answers i32) (param $reasons i32) (result i32)
    (local $index i32) (local $status i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $index) (local.get $count)))
        (call $begin (local.get $slots) (local.get $index))
        (local.set $status (call $filter))
        (i32.store $desk (i32.add (local.get $answers) (i32.shl (local.get $index) (i32.const 2))) (local.get $status))
        (call $end (local.get $reasons) (local.get $index))
        (local.set $index (i32.add (local.get $index) (i32.const 1)))
        (br_if $next (i32.ne (local.get $status) (i32.const 1)))))
    (local.get $index))

  ;; The same for scores: the first that comes with a status other than Success ends it.
  (func (export "score_all") (param $count i32) (param $slots i32) (param $answers i32) (param $reasons i32) (result i32)
    (local $index i32) (local $answer i64)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $index) (local.get $count)))
        (call $begin (local.get $slots) (local.get $index))
        (local.set $answer (call $score))
        (i64.store $desk (i32.add (local.get $answers) (i32.shl (local.get $index) (i32.const 3))) (local.get $answer))
        (call $end (local.get $reasons) (local.get $index))
        (local.set $index (i32.add (local.get $index) (i32.const 1)))
        (br_if $next (i32.eqz (i32.wrap_i64 (local.get $answer))))))
    (local.get $index)))
