;; The memory that the host shares with a guest. The host writes here what guests read for every node (the pod, the names of
;; the nodes, the nodes). The guest's imports copy from this memory to the guest's, so that no call leaves WebAssembly.
;; `filter_all` and `score_all` call the guest for many nodes.
;;
;; The layout is that of shared_memory.py. Words 0 to 15 are registers:
;;   0 pod   4 its length   8 slot of the current node (-1: none)   12 table of slots
;;   16 next free byte for a reason   20 end of the space for reasons   24 the last reason   28 its length
;; A slot is four words: name, its length, node, its length.
(module
  (import "mooring" "switch" (table 4 funcref))
  (import "mooring" "node" (func $host_node (param i32 i32 i32 i32) (result i32)))
  (import "mooring" "memory" (memory $shared 1))
  (import "guest" "memory" (memory $guest 0))
  (import "guest" "filter" (func $filter (result i32)))
  (import "guest" "score" (func $score (result i64)))

  ;; Copies bytes to the guest if they fit, and returns their length.
  (func $copy (param $from i32) (param $length i32) (param $to i32) (param $limit i32) (result i32)
    (if (i32.le_u (local.get $length) (local.get $limit))
      (then (memory.copy $guest $shared (local.get $to) (local.get $from) (local.get $length))))
    (local.get $length))

  (func $slot (result i32)
    (i32.add (i32.load $shared (i32.const 12)) (i32.shl (i32.load $shared (i32.const 8)) (i32.const 4))))

  (func $current_pod (param $to i32) (param $limit i32) (result i32)
    (call $copy (i32.load $shared (i32.const 0)) (i32.load $shared (i32.const 4)) (local.get $to) (local.get $limit)))

  (func $current_node_name (param $to i32) (param $limit i32) (result i32)
    (if (i32.lt_s (i32.load $shared (i32.const 8)) (i32.const 0)) (then (return (i32.const 0))))
    (call $copy (i32.load $shared (call $slot)) (i32.load $shared offset=4 (call $slot))
      (local.get $to) (local.get $limit)))

  ;; Whether a name in the guest's memory is that of the current node.
  (func $is_current (param $name i32) (param $length i32) (result i32) (local $other i32) (local $end i32)
    (if (i32.lt_s (i32.load $shared (i32.const 8)) (i32.const 0)) (then (return (i32.const 0))))
    (if (i32.ne (local.get $length) (i32.load $shared offset=4 (call $slot))) (then (return (i32.const 0))))
    (local.set $other (i32.load $shared (call $slot)))
    (local.set $end (i32.add (local.get $name) (local.get $length)))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $name) (local.get $end)))
        (if (i32.ne (i32.load8_u $guest (local.get $name)) (i32.load8_u $shared (local.get $other)))
          (then (return (i32.const 0))))
        (local.set $name (i32.add (local.get $name) (i32.const 1)))
        (local.set $other (i32.add (local.get $other) (i32.const 1)))
        (br $next)))
    (i32.const 1))

  (func $node (param $name i32) (param $length i32) (param $to i32) (param $limit i32) (result i32)
    (if (call $is_current (local.get $name) (local.get $length))
      (then
        (if (i32.load $shared offset=12 (call $slot))
          (then
            (return (call $copy (i32.load $shared offset=8 (call $slot)) (i32.load $shared offset=12 (call $slot))
              (local.get $to) (local.get $limit)))))))
    (call $host_node (local.get $name) (local.get $length) (local.get $to) (local.get $limit)))

  ;; Stores the last reason, truncated if it does not fit.
  (func $status_reason (param $from i32) (param $length i32) (local $room i32)
    (local.set $room (i32.sub (i32.load $shared (i32.const 20)) (i32.load $shared (i32.const 16))))
    (if (i32.gt_u (local.get $length) (local.get $room)) (then (local.set $length (local.get $room))))
    (memory.copy $shared $guest (i32.load $shared (i32.const 16)) (local.get $from) (local.get $length))
    (i32.store $shared (i32.const 24) (i32.load $shared (i32.const 16)))
    (i32.store $shared (i32.const 28) (local.get $length)))

  (elem (table 0) (i32.const 0) func $current_pod $current_node_name $node $status_reason)

  ;; Before the call for a node: makes it the current node and clears the reason.
  (func $begin (param $slots i32) (param $index i32)
    (i32.store $shared (i32.const 8)
      (i32.load $shared (i32.add (local.get $slots) (i32.shl (local.get $index) (i32.const 2)))))
    (i32.store $shared (i32.const 28) (i32.const 0)))

  ;; After the call: keeps the reason, and adds its address and length to the list of reasons.
  (func $end (param $reasons i32) (param $index i32) (local $at i32)
    (local.set $at (i32.add (local.get $reasons) (i32.shl (local.get $index) (i32.const 3))))
    (i32.store $shared (local.get $at) (i32.load $shared (i32.const 24)))
    (i32.store $shared offset=4 (local.get $at) (i32.load $shared (i32.const 28)))
    (i32.store $shared (i32.const 16) (i32.add (i32.load $shared (i32.const 16)) (i32.load $shared (i32.const 28)))))

  ;; Calls `filter` for nodes until one returns Error (1). Returns the number of calls.
  (func (export "filter_all") (param $count i32) (param $slots i32) (param $answers i32) (param $reasons i32) (result i32)
    (local $index i32) (local $status i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $index) (local.get $count)))
        (call $begin (local.get $slots) (local.get $index))
        (local.set $status (call $filter))
        (i32.store $shared (i32.add (local.get $answers) (i32.shl (local.get $index) (i32.const 2))) (local.get $status))
        (call $end (local.get $reasons) (local.get $index))
        (local.set $index (i32.add (local.get $index) (i32.const 1)))
        (br_if $next (i32.ne (local.get $status) (i32.const 1)))))
    (local.get $index))

  ;; Calls `score` for nodes until one returns a status other than Success. Returns the number of calls.
  (func (export "score_all") (param $count i32) (param $slots i32) (param $answers i32) (param $reasons i32) (result i32)
    (local $index i32) (local $answer i64)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $index) (local.get $count)))
        (call $begin (local.get $slots) (local.get $index))
        (local.set $answer (call $score))
        (i64.store $shared (i32.add (local.get $answers) (i32.shl (local.get $index) (i32.const 3))) (local.get $answer))
        (call $end (local.get $reasons) (local.get $index))
        (local.set $index (i32.add (local.get $index) (i32.const 1)))
        (br_if $next (i32.eqz (i32.wrap_i64 (local.get $answer))))))
    (local.get $index)))
