package fleet

import (
	"regexp"
	"slices"
	"strings"
)

// VMPlacement is which hosts may take the VM, beside its rules.
type VMPlacement struct {
	Tolerations string `json:"tolerations,omitempty"` // taints that it bears, with blanks between them: "gpu maintenance=disk"; "*": any
}

// MaxTaints is how many a host bears at most.
const MaxTaints = 16

const taint = `[a-z][a-z0-9-]{0,62}(=[A-Za-z0-9][A-Za-z0-9._-]{0,62})?`

var (
	taintForm       = regexp.MustCompile(`^` + taint + `$`)
	tolerationsForm = regexp.MustCompile(`^(\*|` + taint + `)( (\*|` + taint + `)){0,15}$`)
)

// CheckTaints notes faults of a host's taints.
func CheckTaints(c *Checks, field string, taints []string) {
	if len(taints) > MaxTaints {
		c.Add(field, "At most %d taints.", MaxTaints)
		return
	}
	for i, t := range taints {
		switch {
		case !taintForm.MatchString(t):
			c.Add(field, "Taint %q: write gpu or gpu=a100. A key has lower-case letters, digits and hyphens, a value letters, digits and . _ -, 63 each at most.", t)
		case slices.Contains(taints[:i], t):
			c.Add(field, "%s is there twice.", t)
		}
	}
}

// Untolerated are those of a host's taints that keep the VM from it.
func (p VMPlacement) Untolerated(taints []string) (out []string) {
	borne := strings.Fields(p.Tolerations)
	for _, t := range taints {
		key, _, _ := strings.Cut(t, "=")
		if !slices.Contains(borne, "*") && !slices.Contains(borne, key) && !slices.Contains(borne, t) {
			out = append(out, t)
		}
	}
	return out
}

// ReservedCPU is how much of a host's processors is kept for the VM, in percent of one.
func (s VMSpec) ReservedCPU() int64 { return int64(s.CPUs) * int64(s.CPU.Reserved) }
