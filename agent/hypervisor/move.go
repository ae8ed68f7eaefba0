package hypervisor

import (
	"errors"

	"quantix/internal/fleet"
)

// ErrStopped is returned by work that was asked to stop and has undone its changes.
var ErrStopped = errors.New("it was ended before its time; all is as it was")

// MoveDisk is the order to move a VM's disk into another pool of the host.
type MoveDisk struct {
	VM    fleet.VM
	Pools []fleet.Pool // the pools that the VM's spec names, and the target pool
	Order fleet.MoveOrder
	// the file in the target pool that an earlier attempt of this order reported to Begun; empty: none
	Made string
	// Begun receives the file in the target pool before it contains data. Its error ends the order.
	Begun func(file string) error
	// Whole receives the new disk once the guest no longer needs the old one, before the definition names it. Its error
	// ends the order.
	Whole func(fleet.Volref) error
	// Stop is closed to stop the move: all changes are undone, and the error is ErrStopped. A move whose guest already
	// uses the new disk finishes instead.
	Stop     <-chan struct{}
	Progress Progress
}

// Stopped reports whether the move must stop.
func (m MoveDisk) Stopped() bool {
	select {
	case <-m.Stop:
		return true
	default:
		return false
	}
}

// Copied formats the progress of a copy for people.
func Copied(act string, done, total, rate int64) (percent int, note string) {
	percent, note = Downloaded(done, total, rate)
	return percent, act + ", " + note
}
