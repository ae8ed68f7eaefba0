package fleet

import (
	"regexp"
	"slices"
	"strings"
)

// VMPlacement selects the hosts that may run the VM, in addition to its placement rules.
type VMPlacement struct {
	// Tolerations: taints that the VM tolerates, separated by blanks: "gpu maintenance=disk"; "*": any
	Tolerations string `json:"tolerations,omitempty"`
}

// MaxTaints is the maximum number of taints of a host.
const MaxTaints = 16

const taint = `[a-z][a-z0-9-]{0,62}(=[A-Za-z0-9][A-Za-z0-9._-]{0,62})?`

var (
	taintForm       = regexp.MustCompile(`^` + taint + `$`)
	tolerationsForm = regexp.MustCompile(`^(\*|` + taint + `)( (\*|` + taint + `)){0,15}$`)
)

// CheckTaints adds an error at field for each invalid taint of a host.
func CheckTaints(c *Checks, field string, taints []string) {
	if len(taints) > MaxTaints {
		c.Add(field, "A host has at most %d taints.", MaxTaints)
		return
	}
	for i, t := range taints {
		switch {
		case !taintForm.MatchString(t):
			c.Add(field, "Taint %q: write gpu or gpu=a100. A key has lower-case letters, digits and hyphens, a value letters, digits and . _ -, 63 each at most.", t)
		case slices.Contains(taints[:i], t):
			c.Add(field, "Taint %s is listed twice.", t)
		}
	}
}

// UntoleratedTaints returns the taints of a host that the VM does not tolerate.
func (p VMPlacement) UntoleratedTaints(taints []string) (out []string) {
	tolerated := strings.Fields(p.Tolerations)
	for _, t := range taints {
		key, _, _ := strings.Cut(t, "=")
		if !slices.Contains(tolerated, "*") && !slices.Contains(tolerated, key) && !slices.Contains(tolerated, t) {
			out = append(out, t)
		}
	}
	return out
}

// ReservedCPU returns the VM's CPU reservation in percent of one processor.
func (s VMSpec) ReservedCPU() int64 { return int64(s.CPUs) * int64(s.CPU.Reserved) }
