package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ClusterID identifies a cluster.
type ClusterID string

// DefaultClusterID is the cluster of hosts that have just joined. It cannot be deleted.
const DefaultClusterID ClusterID = "00000000-0000-7000-8000-000000000001"

// MaxClusters is the maximum number of clusters.
const MaxClusters = 200

// Cluster is a named group of hosts. Each host belongs to one cluster.
type Cluster struct {
	ID         ClusterID   `json:"id"`
	Name       string      `json:"name"`
	Spec       ClusterSpec `json:"spec"`
	Generation int64       `json:"generation"`
	CreatedAt  time.Time   `json:"createdAt"`
}

// ClusterSpec is the configuration of a cluster by users.
type ClusterSpec struct {
	Description string `json:"description,omitempty"`
	// CPUModel is the CPU baseline: the named CPU model of new VMs that name none. Empty: no baseline.
	CPUModel   string           `json:"cpuModel,omitempty"`
	Overcommit Overcommit       `json:"overcommit,omitzero"` // of hosts that set no ratio
	Placement  ClusterPlacement `json:"placement,omitempty"` // empty: PlacementSpread
}

// ClusterPlacement is how placement chooses among the hosts of a cluster that fit.
type ClusterPlacement string

const (
	PlacementSpread ClusterPlacement = "spread" // the host with the most free memory
	PlacementPack   ClusterPlacement = "pack"   // the host with the least free memory
)

// ClusterPlacements are the choices of ClusterSpec.Placement.
var ClusterPlacements = []Option{{string(PlacementSpread), "Spread (most free memory)"}, {string(PlacementPack), "Pack (least free memory)"}}

// Check adds an error below at for each invalid field of the spec.
func (s ClusterSpec) Check(c *Checks, at string) {
	CheckDescription(c, at+".description", s.Description)
	if s.CPUModel != "" && (!cpuModelForm.MatchString(s.CPUModel) || !isNamedCPUModel(s.CPUModel)) {
		c.Add(at+".cpuModel", "Enter the name of a CPU model, such as Skylake-Server.")
	}
	checkRatio(c, at+".overcommit.cpu", s.Overcommit.CPU, MaxCPUOvercommit)
	checkRatio(c, at+".overcommit.memory", s.Overcommit.Memory, MaxMemoryOvercommit)
	if !slices.ContainsFunc(ClusterPlacements, func(o Option) bool { return o.Value == string(s.Placement) }) {
		c.Add(at+".placement", "Choose spread or pack.")
	}
}

// Changes lists what differs between two versions of a cluster, for the audit log: "cpuModel none → Nehalem".
func (c Cluster) Changes(to Cluster) (out []string) {
	s, n := c.Spec, to.Spec
	for _, f := range []struct{ name, from, to string }{
		{"name", c.Name, to.Name},
		{"cpuModel", noneIfEmpty(s.CPUModel), noneIfEmpty(n.CPUModel)},
		{"overcommit.cpu", ratioText(s.Overcommit.CPU), ratioText(n.Overcommit.CPU)},
		{"overcommit.memory", ratioText(s.Overcommit.Memory), ratioText(n.Overcommit.Memory)},
		{"placement", string(s.Placement), string(n.Placement)},
	} {
		if f.from != f.to {
			out = append(out, f.name+" "+f.from+" → "+f.to)
		}
	}
	if s.Description != n.Description {
		out = append(out, "description")
	}
	return out
}

func noneIfEmpty(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// ClusterView is a cluster as the API and pages show it.
type ClusterView struct {
	Cluster
	Hosts int           `json:"hosts,omitempty"` // 0 for actors who cannot see hosts
	Usage *ClusterUsage `json:"usage,omitempty"` // only for a single cluster, and for actors who see hosts
}

// ClusterUsage has the sums over a cluster's hosts.
type ClusterUsage struct {
	HostStates           map[HostPhase]int `json:"hostStates"`
	Cordoned             int               `json:"cordoned"` // cordoned hosts
	Threads              int64             `json:"threads"`
	MemoryMiB            int64             `json:"memoryMiB"`
	AllocatableCPUs      int64             `json:"allocatableCpus"`
	AllocatableMemoryMiB int64             `json:"allocatableMemoryMiB"`
	VMs                  int               `json:"vms"`
	CommittedCPUs        int64             `json:"committedCpus"` // vCPUs of all VMs on the hosts
	CommittedMiB         int64             `json:"committedMemoryMiB"`
	DiscoveredVMs        int               `json:"discoveredVms"`  // discovered VMs on the hosts
	DiscoveredCPUs       int64             `json:"discoveredCpus"` // vCPUs of the running discovered VMs
	DiscoveredMiB        int64             `json:"discoveredMemoryMiB"`
	// BaselineGaps are the first hosts that do not support the baseline. BelowBaseline is the number of all such hosts.
	BaselineGaps  []HostCPUGap `json:"baselineGaps,omitempty"`
	BelowBaseline int          `json:"belowBaseline,omitempty"`
}

// MaxBaselineGaps is the maximum number of hosts in ClusterUsage.BaselineGaps.
const MaxBaselineGaps = 10

// HostCPUGap is a host that does not support a CPU model.
type HostCPUGap struct {
	HostID   HostID `json:"hostId"`
	HostName string `json:"hostName"`
	CPUModelGap
}

// CPUModelGap is a CPU model that a host does not support.
type CPUModelGap struct {
	Model   string   `json:"model"`
	Missing []string `json:"missing,omitempty"` // CPU features that the host lacks for the model; empty: unknown
}

// Limits of the gaps that a host reports.
const (
	MaxCPUModelGaps    = 200
	MaxMissingFeatures = 16 // of one model
)

// Text is a sentence: the host does not support the model. role is the model's role: "CPU model" or "cluster's
// baseline".
func (g CPUModelGap) Text(host, role string) string {
	const shown = 8
	noun, end := "features", ""
	switch n := len(g.Missing); {
	case n == 0:
		return fmt.Sprintf("%s does not support the CPU model %s.", host, g.Model)
	case n == 1:
		noun = "feature"
	case n > shown:
		end = " and others"
	}
	return fmt.Sprintf("%s lacks the CPU %s %s%s of the %s %s.", host, noun, strings.Join(g.Missing[:min(len(g.Missing), shown)], ", "), end, role, g.Model)
}

// GapOf returns why the host's guests cannot have the CPU model; nil: they can, or the agent is too old to report CPU
// models.
func (i Inventory) GapOf(model string) *CPUModelGap {
	if model == "" || len(i.CPUModels) == 0 || slices.Contains(i.CPUModels, model) {
		return nil
	}
	if k := slices.IndexFunc(i.CPUModelGaps, func(g CPUModelGap) bool { return g.Model == model }); k >= 0 {
		return &i.CPUModelGaps[k]
	}
	return &CPUModelGap{Model: model}
}

var clusterActions = ActionTable[ClusterView]{{ActEdit, nil}, {ActAddHosts, nil}, {ActDelete, func(v ClusterView) string {
	switch {
	case v.ID == DefaultClusterID:
		return "Hosts that join become members of this cluster, so it cannot be deleted."
	case v.Hosts > 0:
		return "The cluster still has " + CountWithUnit(v.Hosts, "host") + ". Move them to another cluster first."
	}
	return ""
}}}

// Allows reports whether the cluster allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (v ClusterView) Allows(a Action) (bool, string) { return clusterActions.Allows(v, a) }
func (v ClusterView) Actions() []ActionState         { return clusterActions.States(v) }

// ObjectID returns the cluster's ID as text.
func (v ClusterView) ObjectID() string { return string(v.ID) }

// ClusterKeys are the filter keys of the list of clusters. Actors who cannot see hosts have no key "hosts".
var ClusterKeys = FilterKeys{
	textKey("name", "part of the name"),
	numberKey("hosts", "number of hosts: hosts>4", UnitCount),
	textKey("baseline", "part of the CPU baseline's name"),
	oneOfKey("placement", "the placement policy", []string{string(PlacementSpread), string(PlacementPack)}),
	textKey("description", "part of the description"),
	numberKey("created", "the day of the cluster's creation in UTC: created>2026-01-31", UnitDate),
	textKey("uuid", "the cluster's UUID", "id"),
}
