// Package request has the requests of users for what a project may not have or do yet: more quota, a published pool or
// network, a new VM. It is pure.
package request

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// ID identifies a request.
type ID string

// Kind is the kind of a request.
type Kind string

const (
	Quota   Kind = "quota"
	Pool    Kind = "pool"
	Network Kind = "network"
	VM      Kind = "vm"
)

// KindInfo describes a kind of request.
type KindInfo struct {
	Kind   Kind
	Label  string
	Help   string           // what the user asks for
	Decide fleet.Permission // to approve and to refuse
	Needed string           // label of Wanted.Text; empty: the kind has no text
}

// Kinds lists all kinds.
var Kinds = []KindInfo{
	{Kind: Quota, Label: "Quota", Help: "Higher limits for the project", Decide: fleet.MayManage},
	{Kind: Pool, Label: "Pool", Help: "A storage pool for the project", Decide: fleet.MayChangeInfra, Needed: "What storage is needed"},
	{Kind: Network, Label: "Network", Help: "A network for the project", Decide: fleet.MayChangeInfra, Needed: "What network is needed"},
	{Kind: VM, Label: "New VM", Help: "A VM that needs approval, or that exceeds the project's quota or rules", Decide: fleet.MayApproveVMs},
}

// Info describes the kind; the zero value for an unknown kind.
func (k Kind) Info() KindInfo {
	if i := slices.IndexFunc(Kinds, func(i KindInfo) bool { return i.Kind == k }); i >= 0 {
		return Kinds[i]
	}
	return KindInfo{}
}

// State is what became of a request.
type State string

const (
	Open      State = "open"
	Approved  State = "approved"
	Refused   State = "refused"
	Withdrawn State = "withdrawn" // by the user who made it, or because that user left the project
	Expired   State = "expired"   // nobody decided within Lifetime
)

// Limits of requests.
const (
	MaxReason = 500 // characters of a reason, a text or a comment
	MaxOpen   = 20  // open requests of one user in one project
	MaxStored = 64 << 10
	Lifetime  = 30 * 24 * time.Hour
	Kept      = 365 * 24 * time.Hour // from the request until its deletion, unless it is open
)

// Request is one request.
type Request struct {
	ID          ID              `json:"id"`
	ProjectID   fleet.ProjectID `json:"projectId"`
	ProjectName string          `json:"projectName"`
	Kind        Kind            `json:"kind" enum:"quota,pool,network,vm"`
	Name        string          `json:"name" doc:"A few words for the request"`
	Reason      string          `json:"reason"`
	Wanted
	Generation  int64        `json:"generation" doc:"Starts at 1 and rises when the user repeats the request, which replaces it"`
	State       State        `json:"state" enum:"open,approved,refused,withdrawn,expired"`
	UserID      fleet.UserID `json:"userId,omitempty" doc:"Who made the request; absent: the user was deleted"`
	RequestedBy string       `json:"requestedBy"`
	CreatedAt   time.Time    `json:"createdAt"`
	ExpiresAt   *time.Time   `json:"expiresAt,omitempty" doc:"End of an open request"`
	DecidedAt   *time.Time   `json:"decidedAt,omitempty"`
	DecidedBy   string       `json:"decidedBy,omitempty"`
	Comment     string       `json:"comment,omitempty" doc:"What the person who decided says"`
	Result      Result       `json:"result,omitzero" doc:"What an approval has changed"`
}

// Wanted is what a request asks for.
type Wanted struct {
	Limits map[string]int64 `json:"limits,omitempty" doc:"Hard limits by resource, such as cpus or memoryMiB, in the units of the project's quota"`
	Text   string           `json:"text,omitempty" doc:"What pool or network is needed"`
	VM     *WantedVM        `json:"vm,omitempty"`
}

// WantedVM is the VM that a request asks for, without first-boot data.
type WantedVM struct {
	Name   string       `json:"name"`
	Spec   fleet.VMSpec `json:"spec"`
	Uses   quota.Usage  `json:"uses" doc:"What the VM uses of the project's quota"`
	Broken []string     `json:"broken,omitempty" doc:"Why the project's rules refuse the VM"`
	From   string       `json:"from,omitempty" doc:"Source of the disks"`
	Guest  bool         `json:"firstBoot,omitempty" doc:"The VM has first-boot data"`
}

// Result is what an approval has changed.
type Result struct {
	PoolID    fleet.PoolID    `json:"poolId,omitempty"`
	NetworkID fleet.NetworkID `json:"networkId,omitempty"`
	VMID      fleet.VMID      `json:"vmId,omitempty"`
	Name      string          `json:"name,omitempty"`  // of the pool, network or VM
	Quota     string          `json:"quota,omitempty"` // changed limits: "vCPUs 8 → 16"
}

// Input is a new request for quota, a pool or a network.
type Input struct {
	ProjectID fleet.ProjectID  `json:"projectId"`
	Kind      Kind             `json:"kind"`
	Reason    string           `json:"reason"`
	Limits    map[string]int64 `json:"limits,omitempty"`
	Text      string           `json:"text,omitempty"`
}

// CheckText adds an error if a text of a user is longer than MaxReason characters or has control characters, and if a
// required text is empty.
func CheckText(c *fleet.Checks, field, text string, required bool, missing string) {
	switch {
	case required && strings.TrimSpace(text) == "":
		c.Add(field, "%s", missing)
	case utf8.RuneCountInString(text) > MaxReason:
		c.Add(field, "Enter at most %d characters.", MaxReason)
	default:
		fleet.CheckDescription(c, field, text)
	}
}

// CheckReason adds an error for a missing or invalid reason.
func CheckReason(c *fleet.Checks, reason string) {
	CheckText(c, "reason", reason, true, "Say why you need it.")
}

// LimitField is the form field and the error field of a wished limit.
func LimitField(key string) string { return "limits." + key }

// Check adds an error for each invalid field. now are the project's limits.
func (in Input) Check(c *fleet.Checks, now quota.Quota) {
	CheckReason(c, in.Reason)
	info := in.Kind.Info()
	switch {
	case info.Kind == "":
		c.Add("kind", "Choose quota, pool, network or vm.")
	case info.Needed != "":
		CheckText(c, "text", in.Text, true, "Describe what you need.")
		if len(in.Limits) > 0 {
			c.Add("limits", "Only a request for quota has limits.")
		}
	case in.Kind == Quota:
		in.checkLimits(c, now)
	}
}

func (in Input) checkLimits(c *fleet.Checks, now quota.Quota) {
	if in.Text != "" {
		c.Add("text", "Only a request for a pool or network has a text. Enter a reason.")
	}
	if len(in.Limits) == 0 {
		c.Add("limits", "Enter a new limit of at least one resource.")
	}
	known := 0
	for _, r := range quota.Resources {
		wished, asked := in.Limits[r.Key]
		if !asked {
			continue
		}
		known++
		has := r.Limit(&now).Hard
		switch field := LimitField(r.Key); {
		case wished < 0 || wished > quota.Max:
			c.Add(field, "Enter a number from 0 to %d.", int64(quota.Max))
		case has == nil:
			c.Add(field, "The project has no limit of %s.", strings.ToLower(r.Label[:1])+r.Label[1:])
		case wished <= *has:
			c.Add(field, "The limit is %s already. Enter more.", r.Unit.Text(*has))
		}
	}
	if known < len(in.Limits) {
		for _, key := range slices.Sorted(maps.Keys(in.Limits)) {
			if !slices.ContainsFunc(quota.Resources, func(r quota.Resource) bool { return r.Key == key }) {
				c.Add("limits", "There is no such resource. Name those of the project's quota.")
				return
			}
		}
	}
}

// Title describes the request in a few words: "16 vCPUs, 64 GiB of memory".
func (in Input) Title() string {
	if in.Kind != Quota {
		line := strings.Join(strings.Fields(in.Text), " ")
		if r := []rune(line); len(r) > 48 {
			line = string(r[:47]) + "…"
		}
		return in.Kind.Info().Label + ": " + line
	}
	var parts []string
	for _, r := range quota.Resources {
		if n, asked := in.Limits[r.Key]; asked {
			parts = append(parts, r.Unit.Text(n)+" "+r.Noun)
		}
	}
	const most = 4
	if more := len(parts) - most; more > 0 {
		parts = append(parts[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

// Key is equal for requests that replace each other.
func (in Input) Key() string {
	if in.Kind == Quota {
		return strings.Join(slices.Sorted(maps.Keys(in.Limits)), " ")
	}
	return strings.ToLower(strings.Join(strings.Fields(in.Text), " "))
}

// Raised returns the quota with the wished limits. A resource without a limit keeps none, and no limit becomes lower.
func (w Wanted) Raised(q quota.Quota) quota.Quota {
	for _, r := range quota.Resources {
		if l := r.Limit(&q); l.Hard != nil {
			if n, asked := w.Limits[r.Key]; asked && n > *l.Hard {
				l.Hard = &n
			}
		}
	}
	return q
}

// RaisedToFit returns the quota whose hard limits are raised to what the project uses, for the resources that the VM
// uses.
func RaisedToFit(q quota.Quota, used, vm quota.Usage) quota.Quota {
	for _, r := range quota.Resources {
		if l := r.Limit(&q); l.Hard != nil && r.Used(vm) > 0 && r.Used(used) > *l.Hard {
			n := r.Used(used)
			l.Hard = &n
		}
	}
	q.Pools = maps.Clone(q.Pools)
	for id, l := range q.Pools {
		if l.Hard != nil && vm.Pools[id] > 0 && used.Pools[id] > *l.Hard {
			n := used.Pools[id]
			q.Pools[id] = quota.Limit{Hard: &n, Soft: l.Soft}
		}
	}
	return q
}

// WhyDecided says that a request is not open any more.
func WhyDecided(s State, by string) string {
	switch s {
	case Approved, Refused:
		return fmt.Sprintf("This request is already %s by %s.", s, cmp.Or(by, "another user"))
	case Withdrawn:
		return "This request was withdrawn."
	}
	return "This request has expired. A new one can be made."
}
