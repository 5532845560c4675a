;; The imports that a guest calls for every node. Each is an indirect call through a table, because their implementation
;; in shared_memory.wat needs the guest's memory, which exists only after the guest was instantiated.
(module
  (import "mooring" "switch" (table 4 funcref))
  (type $read (func (param i32 i32) (result i32)))
  (type $look_up (func (param i32 i32 i32 i32) (result i32)))
  (type $give (func (param i32 i32)))
  (func (export "currentPod") (param i32 i32) (result i32)
    (call_indirect (type $read) (local.get 0) (local.get 1) (i32.const 0)))
  (func (export "currentNodeName") (param i32 i32) (result i32)
    (call_indirect (type $read) (local.get 0) (local.get 1) (i32.const 1)))
  (func (export "node") (param i32 i32 i32 i32) (result i32)
    (call_indirect (type $look_up) (local.get 0) (local.get 1) (local.get 2) (local.get 3) (i32.const 2)))
  (func (export "result.status_reason") (param i32 i32)
    (call_indirect (type $give) (local.get 0) (local.get 1) (i32.const 3))))
