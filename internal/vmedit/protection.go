package vmedit

import (
	"errors"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// ProtectVM is the input for a VM's protection: all its settings.
type ProtectVM struct {
	Protected   bool       `json:"protected" doc:"Whether deletion of the VM is refused"`
	Locked      bool       `json:"locked" doc:"Whether only the person who locks the VM, and administrators, may change it or its power state"`
	Reason      string     `json:"reason,omitempty" doc:"The reason of the lock: one line"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty" doc:"When the VM expires; left out: never. It needs attention from 7 days before"`
	ExpiryStops bool       `json:"expiryStops,omitempty" doc:"Whether the VM is shut down when it expires; otherwise it only needs attention"`
}

// ApplyTo returns the protection with the settings of the input. An unchanged lock keeps its owner and time.
func (in ProtectVM) ApplyTo(a fleet.Actor, was fleet.VMProtection, now time.Time) (fleet.VMProtection, error) {
	var checks fleet.Checks
	out := fleet.VMProtection{Protected: in.Protected, ExpiresAt: in.ExpiresAt, ExpiryStops: in.ExpiryStops}
	reason := strings.TrimSpace(in.Reason)
	switch {
	case in.Locked && reason == "":
		checks.Add("reason", "Give the reason for the lock: other users see it.")
	case in.Locked && was.Lock != nil && was.Lock.Reason == reason:
		out.Lock = was.Lock
	case in.Locked:
		out.Lock = &fleet.VMLock{Reason: reason, By: a.Name, UserID: a.UserID, At: now}
	}
	var of fleet.Checks
	out.Check(&of, now)
	if err, ok := errors.AsType[*fleet.Error](of.Err()); ok {
		for _, f := range err.Fields {
			if f.Field == "lock" {
				f.Field = "reason"
			}
			if f.Field == "expiresAt" && was.ExpiresAt != nil && in.ExpiresAt != nil && was.ExpiresAt.Equal(*in.ExpiresAt) {
				continue // an expiry time in the past is allowed if unchanged
			}
			checks.Add(f.Field, "%s", f.Message)
		}
	}
	return out.WithExpiryAt(now), checks.Err()
}

// DescribeProtection describes the changes of a protection for the audit line.
func DescribeProtection(was, is fleet.VMProtection) string {
	var out []string
	if was.Protected != is.Protected {
		out = append(out, map[bool]string{true: "protected from deletion", false: "no longer protected from deletion"}[is.Protected])
	}
	switch {
	case is.Lock == nil && was.Lock != nil:
		out = append(out, "unlocked")
	case is.Lock != nil && is.Lock != was.Lock:
		out = append(out, "locked: "+is.Lock.Reason)
	}
	switch {
	case is.ExpiresAt == nil && was.ExpiresAt != nil:
		out = append(out, "does not expire")
	case is.ExpiresAt != nil && (was.ExpiresAt == nil || !was.ExpiresAt.Equal(*is.ExpiresAt) || was.ExpiryStops != is.ExpiryStops):
		then := ""
		if is.ExpiryStops {
			then = ", then it is shut down"
		}
		out = append(out, "expires "+is.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC")+then)
	}
	return strings.Join(out, ", ")
}
