;; The rule as a guest of kube-scheduler-wasm-extension, which is called for one node at a time.
(module
  (import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 512) "node(s) ended in a zero")
  (func $digit (result i32)
    (i32.sub (i32.load8_u (i32.sub (call $name (i32.const 0) (i32.const 256)) (i32.const 1))) (i32.const 48)))
  (func (export "filter") (result i32)
    (if (call $digit) (then (return (i32.const 0))))
    (call $reason (i32.const 512) (i32.const 23))
    (i32.const 2))
  (func (export "score") (result i64)
    (i64.shl (i64.extend_i32_u (i32.mul (call $digit) (i32.const 10))) (i64.const 32))))
