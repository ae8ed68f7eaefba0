// Package hypervisor is the contract between the agent and the hypervisor of its host: the interfaces that a backend
// implements, the orders that they take, and the faults and refusals that all backends share. It has no state of its
// own.
package hypervisor

import "errors"

// Hypervisor is the agent's contract with the host that it runs on. agent/libvirt and agent/mock implement it, and
// agent/hypervisor/conformance checks that both behave alike. Every method returns when ctx ends, even if a call below
// it hangs. Errors keep the hypervisor's own text, because people read them. An error without an answer of the
// hypervisor wraps ErrAway.
//
// Methods that change something are idempotent: a second call with the same input changes nothing.
type Hypervisor interface {
	VMs
	Guests
	Snapshots
	Storage
	Networks
	Firewall
	Telemetry

	// Close ends all connections.
	Close() error
}

// Progress receives the progress of a long step: percent 0…100 and a note on the current step. It never blocks.
type Progress func(percent int, note string)

// ErrNotRunning is returned by Console, RebootVM and ResetVM for a guest that is not running.
var ErrNotRunning = errors.New("the VM is not running")

// ErrAway is wrapped by errors which mean only that the hypervisor was not reached or did not answer: the call may be
// retried.
var ErrAway = errors.New("the hypervisor is away")

// Away wraps err with ErrAway and keeps its text.
func Away(err error) error {
	if err == nil {
		return nil
	}
	return away{err}
}

type away struct{ error }

func (a away) Unwrap() []error { return []error{a.error, ErrAway} }
