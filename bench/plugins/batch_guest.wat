;; The rule as a batch guest, which is called once for all nodes. docs/plugins/wasm.md documents the request.
(module
  (memory (export "memory") 2)
  (data (i32.const 0) "name")
  (data (i32.const 16) "node(s) ended in a zero\00")
  (global $free (mut i32) (i32.const 1024))
  (func (export "mooring_columns") (result i64) (i64.const 4))
  (func (export "mooring_alloc") (param $bytes i32) (result i32) (local $at i32)
    (local.set $at (global.get $free))
    (global.set $free (i32.and (i32.add (i32.add (local.get $at) (local.get $bytes)) (i32.const 7)) (i32.const -8)))
    (drop (memory.grow (i32.add (i32.shr_u (local.get $bytes) (i32.const 16)) (i32.const 1))))
    (local.get $at))
  ;; Names end in a zero byte, so the digit is the second byte before the next name.
  (func $digit (param $request i32) (param $node i32) (result i32)
    (i32.sub (i32.load8_u (i32.sub (i32.add
        (i32.load offset=48 (local.get $request))
        (i32.load offset=4 (i32.add (i32.load offset=40 (local.get $request)) (i32.shl (local.get $node) (i32.const 2)))))
      (i32.const 2))) (i32.const 48)))
  (func (export "mooring_filter") (param $request i32) (result i32) (local $node i32)
    (i32.store offset=28 (local.get $request) (i32.const 16))
    (i32.store offset=32 (local.get $request) (i32.const 24))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $node) (i32.load offset=4 (local.get $request))))
      (i32.store
        (i32.add (i32.load offset=24 (local.get $request)) (i32.shl (local.get $node) (i32.const 2)))
        (i32.eqz (call $digit (local.get $request) (local.get $node))))
      (local.set $node (i32.add (local.get $node) (i32.const 1)))
      (br $next)))
    (i32.const 0))
  (func (export "mooring_score") (param $request i32) (result i32) (local $node i32)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $node) (i32.load offset=4 (local.get $request))))
      (i64.store
        (i32.add (i32.load offset=24 (local.get $request)) (i32.shl (local.get $node) (i32.const 3)))
        (i64.extend_i32_u (i32.mul (call $digit (local.get $request) (local.get $node)) (i32.const 10))))
      (local.set $node (i32.add (local.get $node) (i32.const 1)))
      (br $next)))
    (i32.const 0)))
