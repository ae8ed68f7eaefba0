package fleet

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// HostSpec is the configuration of a host by users.
type HostSpec struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"description,omitempty"`
	// Schedulable: VMs may be placed on the host. A host that is not schedulable is cordoned: its VMs stay, run and can be
	// started, but no other VM is placed on it.
	Schedulable bool      `json:"schedulable"`
	Roles       HostRoles `json:"roles"`
	// Taints: VMs that do not tolerate a taint are not placed on the host; see TaintEffect.
	Taints     []Taint      `json:"taints,omitempty"`
	Overcommit Overcommit   `json:"overcommit,omitzero"`
	Reserved   HostReserved `json:"reserved,omitzero"`
	// ReportInterval is the interval of the host's reports in seconds; 0: DefaultReportInterval. That of agent.yaml wins.
	ReportInterval int `json:"reportInterval,omitempty"`
}

// HostRoles are the purposes of a host.
type HostRoles struct {
	Compute      bool `json:"compute"`      // VMs may be placed on the host
	Storage      bool `json:"storage"`      // pools may be assigned to the host
	ControlPlane bool `json:"controlPlane"` // the host runs the portal or its database: placement prefers other hosts
}

// DefaultHostSpec is the spec of a host that has just joined.
func DefaultHostSpec() HostSpec {
	return HostSpec{Schedulable: true, Roles: HostRoles{Compute: true, Storage: true}}
}

// UnmarshalJSON decodes a spec. Missing fields get the values of DefaultHostSpec.
func (s *HostSpec) UnmarshalJSON(text []byte) error {
	type plain HostSpec
	out := plain(DefaultHostSpec())
	err := json.Unmarshal(text, &out)
	*s = HostSpec(out)
	return err
}

// Overcommit holds the ratios of allocatable to physical resources. 0 means the default of the cluster.
type Overcommit struct {
	CPU    float64 `json:"cpu,omitempty"`    // vCPUs for each thread
	Memory float64 `json:"memory,omitempty"` // guest memory for each byte of host memory
}

// DefaultOvercommit applies where neither the host nor its cluster sets a ratio.
var DefaultOvercommit = Overcommit{CPU: 4, Memory: 1}

// Limits of Overcommit ratios.
const (
	MinOvercommit       = 0.1
	MaxCPUOvercommit    = 64
	MaxMemoryOvercommit = 8
)

// Or returns o with unset ratios taken from other.
func (o Overcommit) Or(other Overcommit) Overcommit {
	if o.CPU == 0 {
		o.CPU = other.CPU
	}
	if o.Memory == 0 {
		o.Memory = other.Memory
	}
	return o
}

// HostReserved is the part of a host that VMs do not get.
type HostReserved struct {
	CPU int `json:"cpu,omitempty"` // threads
	// MemoryMiB: nil means 10 % of the host's memory, at most 1 GiB
	MemoryMiB *int64 `json:"memoryMiB,omitempty"`
}

// HostCapacity is what a host can allocate to VMs.
type HostCapacity struct {
	Threads           int        `json:"threads"`
	MemoryMiB         int64      `json:"memoryMiB"`
	ReservedThreads   int        `json:"reservedThreads"`
	ReservedMemoryMiB int64      `json:"reservedMemoryMiB"`
	Overcommit        Overcommit `json:"overcommit"`
	// AllocatableCPUs is the number of vCPUs that VMs can have in total; 0 if the agent is too old to report threads.
	AllocatableCPUs      int64 `json:"allocatableCpus"`
	AllocatableMemoryMiB int64 `json:"allocatableMemoryMiB"`
}

// Capacity returns the capacity of a host with this spec, these threads and this memory. defaults are the ratios of the
// host's cluster.
func (s HostSpec) Capacity(threads int, memoryMiB int64, defaults Overcommit) HostCapacity {
	c := HostCapacity{
		Threads: threads, MemoryMiB: memoryMiB, ReservedThreads: min(s.Reserved.CPU, threads), ReservedMemoryMiB: min(memoryMiB/10, 1024),
		Overcommit: s.Overcommit.Or(defaults).Or(DefaultOvercommit),
	}
	if s.Reserved.MemoryMiB != nil {
		c.ReservedMemoryMiB = min(*s.Reserved.MemoryMiB, memoryMiB)
	}
	c.AllocatableCPUs = int64(float64(threads-c.ReservedThreads)*c.Overcommit.CPU + 1e-9)
	c.AllocatableMemoryMiB = int64(float64(memoryMiB-c.ReservedMemoryMiB)*c.Overcommit.Memory + 1e-9)
	return c
}

// Check adds an error below at for each invalid field of the spec. total is the host's hardware: its Threads and
// MemoryMiB bound the reservations; 0 means unknown.
func (s HostSpec) Check(c *Checks, at string, total HostCapacity) {
	CheckLabels(c, at+".labels", s.Labels)
	CheckDescription(c, at+".description", s.Description)
	CheckTaints(c, at+".taints", s.Taints)
	checkRatio(c, at+".overcommit.cpu", s.Overcommit.CPU, MaxCPUOvercommit)
	checkRatio(c, at+".overcommit.memory", s.Overcommit.Memory, MaxMemoryOvercommit)
	if r := s.ReportInterval; r != 0 && (r < MinReportInterval || r > MaxReportInterval) {
		c.Add(at+".reportInterval", "Give an interval from %d to %d seconds, or leave the field empty for %d.", MinReportInterval, MaxReportInterval, DefaultReportInterval)
	}
	switch r := s.Reserved; {
	case r.CPU < 0:
		c.Add(at+".reserved.cpu", "Reserve 0 or more threads.")
	case total.Threads > 0 && r.CPU >= total.Threads:
		c.Add(at+".reserved.cpu", "The host has %d threads: leave at least 1 for VMs.", total.Threads)
	}
	switch m := s.Reserved.MemoryMiB; {
	case m == nil:
	case *m < 0:
		c.Add(at+".reserved.memoryMiB", "Reserve 0 MiB or more.")
	case total.MemoryMiB > 0 && *m >= total.MemoryMiB:
		c.Add(at+".reserved.memoryMiB", "The host has %s MiB of memory: leave some for VMs.", FormatCount(total.MemoryMiB))
	}
}

func checkRatio(c *Checks, at string, ratio float64, most float64) {
	if ratio != 0 && !(ratio >= MinOvercommit && ratio <= most) { // also true for NaN
		c.Add(at, "Give a ratio from %s to %s, or leave the field empty for the default.", FormatRatio(MinOvercommit), FormatRatio(most))
	}
}

// FormatRatio formats an overcommit ratio: "1.5", "4".
func FormatRatio(r float64) string { return strconv.FormatFloat(r, 'f', -1, 64) }

// Changes lists what differs between two specs of a host, for the audit log: "overcommit.memory 1 → 1.5".
func (s HostSpec) Changes(to HostSpec) (out []string) {
	note := func(changed bool, text string) {
		if changed {
			out = append(out, text)
		}
	}
	note(s.Schedulable && !to.Schedulable, "cordoned")
	note(!s.Schedulable && to.Schedulable, "uncordoned")
	note(!maps.Equal(s.Labels, to.Labels), "labels")
	note(s.Description != to.Description, "description")
	note(s.Roles != to.Roles, "roles "+s.Roles.Text()+" → "+to.Roles.Text())
	note(!slices.Equal(s.Taints, to.Taints), "taints "+taintsText(s.Taints)+" → "+taintsText(to.Taints))
	note(s.Overcommit.CPU != to.Overcommit.CPU, "overcommit.cpu "+ratioText(s.Overcommit.CPU)+" → "+ratioText(to.Overcommit.CPU))
	note(s.Overcommit.Memory != to.Overcommit.Memory, "overcommit.memory "+ratioText(s.Overcommit.Memory)+" → "+ratioText(to.Overcommit.Memory))
	note(s.Reserved.CPU != to.Reserved.CPU, "reserved.cpu "+strconv.Itoa(s.Reserved.CPU)+" → "+strconv.Itoa(to.Reserved.CPU))
	note(s.ReportInterval != to.ReportInterval, "reportInterval "+secondsText(s.ReportInterval)+" → "+secondsText(to.ReportInterval))
	from, reserved := mebibytesText(s.Reserved.MemoryMiB), mebibytesText(to.Reserved.MemoryMiB)
	note(from != reserved, "reserved.memoryMiB "+from+" → "+reserved)
	return out
}

// Text lists the roles: "compute, storage", or "none".
func (r HostRoles) Text() string {
	var words []string
	for _, role := range []struct {
		has  bool
		word string
	}{{r.Compute, "compute"}, {r.Storage, "storage"}, {r.ControlPlane, "control plane"}} {
		if role.has {
			words = append(words, role.word)
		}
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, ", ")
}

func ratioText(r float64) string {
	if r == 0 {
		return "default"
	}
	return FormatRatio(r)
}

func secondsText(n int) string {
	if n == 0 {
		return "default"
	}
	return strconv.Itoa(n) + " s"
}

func mebibytesText(m *int64) string {
	if m == nil {
		return "default"
	}
	return strconv.FormatInt(*m, 10)
}

// FormatCount formats a number with a comma between each group of three digits: "24,105".
func FormatCount(n int64) string {
	text := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(text, "-")
	sign := text[:len(text)-len(digits)]
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
