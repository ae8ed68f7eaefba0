package fleet

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Taint keeps VMs that do not tolerate it away from a host.
type Taint struct {
	Key    string      `json:"key"`
	Value  string      `json:"value,omitempty"`
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is what a taint does to VMs that do not tolerate it.
type TaintEffect string

const (
	NoSchedule       TaintEffect = "NoSchedule"       // the VM is not placed on the host
	PreferNoSchedule TaintEffect = "PreferNoSchedule" // placement prefers other hosts
	NoExecute        TaintEffect = "NoExecute"        // the VM is not placed on the host, and is migrated away if it is there
)

// TaintEffects lists every effect; the first is the default.
var TaintEffects = []TaintEffect{NoSchedule, PreferNoSchedule, NoExecute}

// Text returns the taint as forms show and ParseTaint reads it: "gpu=a100:NoSchedule".
func (t Taint) Text() string { return t.NameText() + ":" + string(t.Effect) }

// NameText returns the taint without its effect: "gpu=a100".
func (t Taint) NameText() string {
	if t.Value == "" {
		return t.Key
	}
	return t.Key + "=" + t.Value
}

// ParseTaint reads a taint such as "gpu", "gpu=a100" or "gpu=a100:NoExecute". Without an effect, the effect is
// NoSchedule. The result is not checked: see CheckTaints.
func ParseTaint(text string) Taint {
	name, effect, has := strings.Cut(text, ":")
	if !has {
		effect = string(NoSchedule)
	}
	key, value, _ := strings.Cut(name, "=")
	return Taint{key, value, TaintEffect(effect)}
}

// UnmarshalJSON decodes a taint. A missing effect means NoSchedule.
func (t *Taint) UnmarshalJSON(text []byte) error {
	type plain Taint
	out := plain{Effect: NoSchedule}
	err := json.Unmarshal(text, &out)
	*t = Taint(out)
	return err
}

func taintsText(taints []Taint) string {
	if len(taints) == 0 {
		return "none"
	}
	texts := make([]string, len(taints))
	for i, t := range taints {
		texts[i] = t.Text()
	}
	return strings.Join(texts, " ")
}

// VMPlacement selects the hosts that may run the VM, in addition to its placement rules.
type VMPlacement struct {
	// Tolerations: taints that the VM tolerates, separated by blanks: "gpu maintenance=disk"; "*": any
	Tolerations string `json:"tolerations,omitempty"`
	// Overcommit: the VM may be started beyond its host's capacity. A request with overcommit sets it.
	Overcommit bool `json:"overcommit,omitempty"`
}

// MaxTaints is the maximum number of taints of a host.
const MaxTaints = 16

const (
	taintKey = `[a-z][a-z0-9-]{0,62}`
	taint    = taintKey + `(=[A-Za-z0-9][A-Za-z0-9._-]{0,62})?`
)

var (
	taintForm       = regexp.MustCompile(`^` + taint + `$`)
	tolerationsForm = regexp.MustCompile(`^(\*|` + taint + `)( (\*|` + taint + `)){0,15}$`)
)

// CheckTaints adds an error below field for each invalid taint of a host.
func CheckTaints(c *Checks, field string, taints []Taint) {
	if len(taints) > MaxTaints {
		c.Add(field, "A host has at most %d taints.", MaxTaints)
		return
	}
	for i, t := range taints {
		at := fmt.Sprintf("%s[%d]", field, i)
		sameTaint := func(other Taint) bool {
			return other.Key == t.Key && other.Value == t.Value && other.Effect == t.Effect
		}
		switch {
		case !taintForm.MatchString(t.NameText()):
			c.Add(at, "Taint %q: write gpu or gpu=a100. A key has lower-case letters, digits and hyphens, a value letters, digits and . _ -, 63 each at most.", t.NameText())
		case !slices.Contains(TaintEffects, t.Effect):
			c.Add(at, "Taint %s: there is no effect %q. Use NoSchedule, PreferNoSchedule or NoExecute.", t.NameText(), string(t.Effect))
		case slices.ContainsFunc(taints[:i], sameTaint):
			c.Add(at, "Taint %s is listed twice.", t.Text())
		}
	}
}

// Untolerated returns the taints with one of the effects that the VM does not tolerate.
func (p VMPlacement) Untolerated(taints []Taint, effects ...TaintEffect) (out []Taint) {
	tolerated := strings.Fields(p.Tolerations)
	for _, t := range taints {
		if slices.Contains(effects, t.Effect) && !slices.Contains(tolerated, "*") && !slices.Contains(tolerated, t.Key) && !slices.Contains(tolerated, t.NameText()) {
			out = append(out, t)
		}
	}
	return out
}

// ReservedCPU returns the VM's CPU reservation in percent of one processor.
func (s VMSpec) ReservedCPU() int64 { return int64(s.CPUs) * int64(s.CPU.Reserved) }
