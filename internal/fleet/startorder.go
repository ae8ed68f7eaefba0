package fleet

// StartPosition returns the VM's position among VMs that are started together, lowest first.
func (p VMPolicy) StartPosition() int {
	if p.StartOrder == 0 {
		return MaxStartOrder + 1
	}
	return p.StartOrder
}

// StopPosition returns the VM's position among VMs that are shut down together, lowest first: VMs without any order
// come first, then by stop order, then in the reverse of the start order.
func (p VMPolicy) StopPosition() int {
	switch {
	case p.StopOrder > 0:
		return p.StopOrder
	case p.StartOrder > 0:
		return 2*MaxStartOrder + 1 - p.StartOrder
	}
	return 0
}

// BulkActionPosition returns a function that returns a VM's position in the bulk action, and the seconds to wait after
// this VM before VMs of later positions. Nil: the action starts on all VMs at once.
func BulkActionPosition(a Action) func(VMPolicy) (place, wait int) {
	switch a {
	case ActStart:
		return func(p VMPolicy) (int, int) { return p.StartPosition(), p.StartDelay }
	case ActShutdown:
		return func(p VMPolicy) (int, int) { return p.StopPosition(), p.StopDelay }
	}
	return nil
}
