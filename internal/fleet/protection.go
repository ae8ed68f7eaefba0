package fleet

import (
	"fmt"
	"time"
)

// VMProtection is what guards a VM from people, and until when it is wanted. No host knows of it.
type VMProtection struct {
	Protected   bool       `json:"protected,omitempty"`   // it is not deleted
	Lock        *VMLock    `json:"lock,omitempty"`        // nobody but who set it, and administrators, changes it; nil: it is not locked
	ExpiresAt   *time.Time `json:"expiresAt,omitempty"`   // when it is not wanted any more; nil: never
	ExpiryStops bool       `json:"expiryStops,omitempty"` // then it is asked to shut down; else it is only told
	Expiry      Expiry     `json:"expiry,omitempty"`
}

// VMLock says who wants that nobody touches a VM, and why.
type VMLock struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	UserID UserID    `json:"userId,omitempty"`
	At     time.Time `json:"at"`
}

// Expiry is how near a VM is to its end.
type Expiry string

const (
	ExpiresSoon Expiry = "soon" // within ExpiryNotice
	Expired     Expiry = "over"
)

// ExpiryNotice is how long before its end a VM waits for a person.
const ExpiryNotice = 7 * 24 * time.Hour

// MaxLockReason is in bytes.
const MaxLockReason = 200

// expiryAt is how near the end is.
func expiryAt(end *time.Time, now time.Time) Expiry {
	switch {
	case end == nil || end.Sub(now) > ExpiryNotice:
		return ""
	case end.After(now):
		return ExpiresSoon
	}
	return Expired
}

// At is the guard with its expiry as it is now.
func (g VMProtection) At(now time.Time) VMProtection {
	g.Expiry = expiryAt(g.ExpiresAt, now)
	return g
}

// Check notes what is wrong with it at the fields of a form.
func (g VMProtection) Check(c *Checks, now time.Time) {
	if g.Lock != nil && (len(g.Lock.Reason) > MaxLockReason || !plain(g.Lock.Reason)) {
		c.Add("lock", "A reason is one line of at most %d bytes.", MaxLockReason)
	}
	if g.ExpiryStops && g.ExpiresAt == nil {
		c.Add("expiresAt", "Say until when it is wanted, or leave that it is shut down then.")
	}
	if g.ExpiresAt != nil && (!g.ExpiresAt.After(now) || g.ExpiresAt.Sub(now) > 20*365*24*time.Hour) {
		c.Add("expiresAt", "Choose a time to come, within 20 years.")
	}
}

// Bars says why the lock keeps others from the VM.
func (l VMLock) Bars() string {
	return fmt.Sprintf("%s has locked it: %s", l.By, sentence(l.Reason))
}

// sentence is the text with a stop at its end.
func sentence(text string) string {
	if n := len(text); n > 0 && (text[n-1] == '.' || text[n-1] == '!' || text[n-1] == '?') {
		return text
	}
	return text + "."
}

// ExpiryFault is what is wrong with a VM that is at its end, or near it; nil: nothing.
func (vm VM) ExpiryFault() *Fault {
	if vm.Protection.ExpiresAt == nil || vm.Protection.Expiry == "" {
		return nil
	}
	on := vm.Protection.ExpiresAt.UTC().Format("2 January 2006, 15:04 UTC")
	then := "Extend it, or delete the VM."
	switch {
	case vm.Protection.Expiry == Expired && vm.Protection.ExpiryStops:
		return &Fault{Code: FaultExpiry, Text: "It expired on " + on + ", and was asked to shut down. " + then}
	case vm.Protection.Expiry == Expired:
		return &Fault{Code: FaultExpiry, Text: "It expired on " + on + ". " + then}
	case vm.Protection.ExpiryStops:
		return &Fault{Code: FaultExpiry, Text: "It expires on " + on + ", and is shut down then. " + then}
	}
	return &Fault{Code: FaultExpiry, Text: "It expires on " + on + ". " + then}
}
