package fleet

import (
	"fmt"
	"time"
)

// VMProtection protects a VM from users' changes and limits the VM's lifetime. Only the portal uses it.
type VMProtection struct {
	Protected bool `json:"protected,omitempty"` // the VM cannot be deleted
	// Lock: only the user who set the lock and administrators may change the VM; nil: not locked
	Lock      *VMLock    `json:"lock,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"` // end of the VM's lifetime; nil: none
	// ExpiryStops: the VM is shut down at ExpiresAt; otherwise the portal only reports the expiry
	ExpiryStops bool   `json:"expiryStops,omitempty"`
	Expiry      Expiry `json:"expiry,omitempty"`
}

// VMLock records who locked a VM against changes, and why.
type VMLock struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	UserID UserID    `json:"userId,omitempty"`
	At     time.Time `json:"at"`
}

// Expiry is the stage of a VM's lifetime.
type Expiry string

const (
	ExpiresSoon Expiry = "soon" // within ExpiryNotice
	Expired     Expiry = "over"
)

// ExpiryNotice is how long before its expiry a VM needs attention.
const ExpiryNotice = 7 * 24 * time.Hour

// MaxLockReason is the maximum length of a lock's reason, in bytes.
const MaxLockReason = 200

// expiryAt returns the stage of the lifetime at now; empty: its end is not near.
func expiryAt(end *time.Time, now time.Time) Expiry {
	switch {
	case end == nil || end.Sub(now) > ExpiryNotice:
		return ""
	case end.After(now):
		return ExpiresSoon
	}
	return Expired
}

// WithExpiryAt returns the protection with its Expiry computed at now.
func (g VMProtection) WithExpiryAt(now time.Time) VMProtection {
	g.Expiry = expiryAt(g.ExpiresAt, now)
	return g
}

// Check adds an error for each invalid field of the form.
func (g VMProtection) Check(c *Checks, now time.Time) {
	if g.Lock != nil && (len(g.Lock.Reason) > MaxLockReason || !IsPlainText(g.Lock.Reason)) {
		c.Add("lock", "A reason is one line of at most %d bytes.", MaxLockReason)
	}
	if g.ExpiryStops && g.ExpiresAt == nil {
		c.Add("expiresAt", "Enter the expiry time, or disable the shutdown at expiry.")
	}
	if g.ExpiresAt != nil && (!g.ExpiresAt.After(now) || g.ExpiresAt.Sub(now) > 20*365*24*time.Hour) {
		c.Add("expiresAt", "Choose a future time within 20 years.")
	}
}

// Refusal returns why the lock refuses changes, as a sentence.
func (l VMLock) Refusal() string {
	return fmt.Sprintf("%s has locked the VM: %s", l.By, withFullStop(l.Reason))
}

// withFullStop ends the text with a full stop.
func withFullStop(text string) string {
	if n := len(text); n > 0 && (text[n-1] == '.' || text[n-1] == '!' || text[n-1] == '?') {
		return text
	}
	return text + "."
}

// ExpiryFault returns the fault of a VM that has expired or will soon, or nil.
func (vm VM) ExpiryFault() *Fault {
	if vm.Protection.ExpiresAt == nil || vm.Protection.Expiry == "" {
		return nil
	}
	on := vm.Protection.ExpiresAt.UTC().Format("2 January 2006, 15:04 UTC")
	then := "Renew the VM, or delete it."
	switch {
	case vm.Protection.Expiry == Expired && vm.Protection.ExpiryStops:
		return &Fault{Code: FaultExpiry, Text: "The VM expired on " + on + ", and was asked to shut down. " + then}
	case vm.Protection.Expiry == Expired:
		return &Fault{Code: FaultExpiry, Text: "The VM expired on " + on + ". " + then}
	case vm.Protection.ExpiryStops:
		return &Fault{Code: FaultExpiry, Text: "The VM expires on " + on + ", and is shut down then. " + then}
	}
	return &Fault{Code: FaultExpiry, Text: "The VM expires on " + on + ". " + then}
}
