// Package adoption decides whether Quantix can adopt a pool or network that a host defined itself, and compares the
// definitions of several hosts. Agents and the portal use it.
package adoption

import (
	"errors"

	"quantix/internal/fleet"
)

const oldAgentRefusal = "The host's agent does not report the definition. Upgrade the agent."

// WhyUnsupported returns why Quantix does not support an object with the name and the spec that check examines; empty: it
// does.
func WhyUnsupported(name string, check func(c *fleet.Checks, prefix string)) string {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", name)
	check(&checks, "spec")
	if refusal, ok := errors.AsType[*fleet.Error](checks.Err()); ok {
		return "Quantix does not support the host's definition: " + refusal.Fields[0].Message
	}
	return ""
}

// Pool is a discovered pool with the other hosts that have an equal one.
type Pool struct {
	fleet.NamedHost
	Pool   fleet.DiscoveredPool `json:"pool"`
	Others []fleet.NamedHost    `json:"others"`
}

// BesideQuantixPool returns a discovered pool with the refusal, or the pool that its adoption joins. existing is the
// Quantix pool with this name; nil: there is none.
func BesideQuantixPool(p fleet.DiscoveredPool, existing *fleet.Pool) fleet.DiscoveredPool {
	p.PoolID, p.Refusal = "", whyPoolNotAdoptable(p)
	if p.Refusal != "" || existing == nil {
		return p
	}
	switch ok, why := existing.Allows(fleet.ActAssign); {
	case !ok:
		p.Refusal = why
	case !SameStorage(existing.Spec, *p.Spec):
		p.Refusal = "Quantix has a pool with this name at another location (" + existing.Spec.Source() + "). A host's pool keeps its name: define it under another name with virsh first."
	default:
		p.PoolID = existing.ID
	}
	return p
}

func whyPoolNotAdoptable(p fleet.DiscoveredPool) string {
	switch {
	case p.Error != "":
		return "The host cannot read the pool: " + p.Error
	case p.Refusal != "":
		return p.Refusal
	case p.Spec == nil:
		return oldAgentRefusal
	}
	return ""
}

// SameStorage reports whether both specs name the same storage. Description and sharing do not count.
func SameStorage(a, b fleet.PoolSpec) bool {
	a.Description, b.Description, a.Shared, b.Shared = "", "", false, false
	return a == b
}
