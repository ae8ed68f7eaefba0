package fleet

// StartPlace is where a VM stands in the start order, of VMs that are started together: the lowest first.
func (p VMPolicy) StartPlace() int {
	if p.StartOrder == 0 {
		return MaxStartOrder + 1
	}
	return p.StartOrder
}

// StopPlace is where a VM stands in the order in which VMs are shut down together: those that are in no order first, then by their place in it, then the
// others in the reverse of the start order.
func (p VMPolicy) StopPlace() int {
	switch {
	case p.StopOrder > 0:
		return p.StopOrder
	case p.StartOrder > 0:
		return 2*MaxStartOrder + 1 - p.StartOrder
	}
	return 0
}

// PlaceIn is the order in which an action on many VMs begins, with the seconds to wait after a VM before those of later places; nil: all at once.
func PlaceIn(a Action) func(VMPolicy) (place, wait int) {
	switch a {
	case ActStart:
		return func(p VMPolicy) (int, int) { return p.StartPlace(), p.StartDelay }
	case ActShutdown:
		return func(p VMPolicy) (int, int) { return p.StopPlace(), p.StopDelay }
	}
	return nil
}
