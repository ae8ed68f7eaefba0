package kit

import (
	"strings"

	"quantix/internal/fleet"
)

// HostLabelForm is the form of an object's host labels. Hosts with these labels get the object automatically.
type HostLabelForm struct {
	Dialog   Dialog // dialog around the form; empty if the form is part of another form
	Of       string // the object that gets the labels: "pool:<id>", or "pool" for a new pool
	Word     string // "pool"
	Selector string
	Preview  HostLabelPreview
	Error    string // error of the label input
	Errors   Errors
}

// HostLabelPreview lists the hosts that currently have the labels typed in the form.
type HostLabelPreview struct {
	fleet.MatchingHosts
	HasLabels bool   // the form has labels, so hosts were searched
	Error     string // why the labels are invalid
}

// matchText summarizes the preview: "3 hosts match: h1, h2, h3. 1 of these hosts is not assigned yet: h1."
func (p HostLabelPreview) matchText() string {
	if p.All == 0 {
		return "No host has all of these labels now. Hosts that get the labels later are assigned then."
	}
	var names, without []string
	for _, h := range p.Hosts {
		names = append(names, h.HostName)
		if !h.Has {
			without = append(without, h.HostName)
		}
	}
	verb := " match: "
	if p.All == 1 {
		verb = " matches: "
	}
	out := CountText(p.All, "host") + verb + hostNamesText(names, p.All) + ". "
	switch p.Without {
	case 0:
		return out + "All of these hosts are assigned."
	case p.All:
		return out + "None of these hosts is assigned yet."
	case 1:
		return out + "1 of these hosts is not assigned yet: " + hostNamesText(without, 1) + "."
	}
	return out + CountText(p.Without, "host") + " of these hosts are not assigned yet: " + hostNamesText(without, p.Without) + "."
}

func hostNamesText(names []string, all int) string {
	out := strings.Join(names, ", ")
	if n := all - len(names); n > 0 {
		out += " and " + CountText(n, "more host")
	}
	return out
}

func unlabelledHostNames(b fleet.ByLabel) string {
	names := make([]string, len(b.Unmatched))
	for i, h := range b.Unmatched {
		names[i] = h.HostName
	}
	return hostNamesText(names, b.UnmatchedCount)
}

// unassignedHosts lists the hosts that match the object's labels but are not assigned. It omits hosts whose assignment
// a person has ended.
func unassignedHosts(b fleet.ByLabel) (out []fleet.LeftOutHost) {
	for _, h := range b.LeftOut {
		if h.Why != fleet.ReleasedByPerson {
			out = append(out, h)
		}
	}
	return out
}

// RetryResultText describes the result of a retry on several hosts.
func RetryResultText(r fleet.RetryResult) string {
	out := CountText(len(r.Tasks), "host") + " will try again."
	if r.Offline > 0 {
		out += " Offline: " + CountText(r.Offline, "host") + "; they try again when they are online."
	}
	if r.More > 0 {
		out += " " + CountText(r.More, "more host") + " failed; retry once more for them."
	}
	return out
}
