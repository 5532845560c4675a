;; What a guest imports of the functions that it calls for every node. Each goes through a switch, so that it can be
;; answered by desk.wat as soon as the guest's memory is there, which it is not while the guest is being made.
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
