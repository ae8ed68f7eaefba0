// Package hypervisor is the contract between the agent and the hypervisor of its host: the interfaces that a backend
// implements, the jobs that they execute, and the faults and refusals that all backends share. It has no state.
package hypervisor

import (
	"errors"

	"quantix/internal/fleet"
)

// Hypervisor is the agent's contract with the host that it runs on. agent/libvirt and agent/mock implement it, and
// agent/hypervisor/conformance checks that both behave alike. Every method returns when ctx ends, even if a call to the
// hypervisor hangs. Errors contain the hypervisor's own text, because people read them. If the hypervisor did not
// answer, the error wraps ErrUnreachable.
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

// ErrNotRunning is the error of Console, RebootVM and ResetVM for a guest that is not running.
var ErrNotRunning = errors.New("the VM is not running")

// ManagedDomainError is the error of ControlUnmanagedVM for a domain with Quantix metadata.
func ManagedDomainError(name string) error {
	return fleet.Errorf(fleet.Conflict, "%s is a VM of Quantix by now. Use the VM's own page.", name)
}

// ErrUnreachable is wrapped by errors that mean only that the hypervisor was not reached or did not answer. The caller
// may retry.
var ErrUnreachable = errors.New("the hypervisor is away")

// WrapUnreachable returns err so that it also wraps ErrUnreachable, with the text of err.
func WrapUnreachable(err error) error {
	if err == nil {
		return nil
	}
	return unreachableError{err}
}

type unreachableError struct{ error }

func (a unreachableError) Unwrap() []error { return []error{a.error, ErrUnreachable} }
