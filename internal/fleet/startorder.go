package fleet

// StartPosition returns the VM's place in the start order of VMs that are started together, lowest first.
func (p VMPolicy) StartPosition() int {
	if p.StartOrder == 0 {
		return MaxStartOrder + 1
	}
	return p.StartOrder
}

// StopPosition returns the VM's place when VMs are shut down together, lowest first: VMs without any order, then by
// stop order, then in the reverse of the start order.
func (p VMPolicy) StopPosition() int {
	switch {
	case p.StopOrder > 0:
		return p.StopOrder
	case p.StartOrder > 0:
		return 2*MaxStartOrder + 1 - p.StartOrder
	}
	return 0
}

// BulkPosition returns a function that gives a VM's place in a bulk action, and the seconds to wait after it before
// later places. Nil: all VMs at once.
func BulkPosition(a Action) func(VMPolicy) (place, wait int) {
	switch a {
	case ActStart:
		return func(p VMPolicy) (int, int) { return p.StartPosition(), p.StartDelay }
	case ActShutdown:
		return func(p VMPolicy) (int, int) { return p.StopPosition(), p.StopDelay }
	}
	return nil
}
