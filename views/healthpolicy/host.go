package healthpolicy

import (
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
)

// HostView is what policies do on one host, for its page.
type HostView struct {
	Actor fleet.Actor
	Of    healthpolicy.OfHost
	Back  string // page of the host
	Now   time.Time
}

// notice is a banner on the page of a host.
type notice struct {
	class, icon           string
	strong, before, after string
	since                 time.Time
	detail                string
	matches, releasable   []healthpolicy.Match
}

// notices returns a banner for each match that changed the host or waits to do so.
func (v HostView) notices() (out []notice) {
	for _, m := range v.Of.Matches {
		if !m.Acts() {
			continue
		}
		n := notice{class: "warn", icon: "triangle-alert", since: m.Since, detail: m.Text, matches: []healthpolicy.Match{m}, releasable: []healthpolicy.Match{m}}
		done := v.done(m)
		switch {
		case m.State == healthpolicy.Waiting:
			n.icon, n.strong, n.before = "clock", "Policy "+m.PolicyName+" waits to "+strings.Join(wanted(m.Actions), " and ")+" this host.", m.Reason+" Matched"
		case len(done) == 0:
			n.class, n.icon, n.strong, n.before = "info", "info", "Policy "+m.PolicyName+" changed nothing on this host.", strings.TrimSpace(m.Reason+" Matched")
			n.releasable = nil
		default:
			n.strong, n.before = "Policy "+m.PolicyName+" "+strings.Join(done, " and ")+" this host", ""
		}
		if len(done) > 0 && m.State != healthpolicy.Waiting {
			n.before = ""
		}
		n.after = " because of " + m.Cause() + "."
		out = append(out, n)
	}
	return out
}

// done lists what the policy of the match did to the host: "tainted", "cordoned".
func (v HostView) done(m healthpolicy.Match) (out []string) {
	for _, a := range v.Of.Acts {
		if a.State != healthpolicy.Held || !slices.Contains(a.Policies, m.PolicyName) {
			continue
		}
		word := "tainted"
		switch a.Act {
		case healthpolicy.Cordon:
			word = "cordoned"
		case healthpolicy.DrainTaint:
			word = "drained"
		}
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

func wanted(a healthpolicy.Actions) (out []string) {
	if a.Drain {
		return []string{"drain"}
	}
	if a.Cordon {
		out = append(out, "cordon")
	}
	if a.Taint != "" {
		out = append(out, "taint")
	}
	return out
}

// notes are the open matches without a banner.
func (v HostView) notes() (out []healthpolicy.Match) {
	for _, m := range v.Of.Matches {
		if !m.Acts() {
			out = append(out, m)
		}
	}
	return out
}
