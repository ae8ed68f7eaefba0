package host

import (
	"strings"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// SettingsForm holds a host's editable settings, as typed.
type SettingsForm struct {
	Labels, Taints, Description string
	Schedulable                 bool
	Roles                       fleet.HostRoles
	CPURatio, MemoryRatio       string
	ReservedCPU, ReservedMiB    string
	ClusterID                   string
	Clusters                    []kit.Option     // all clusters
	Defaults                    fleet.Overcommit // ratios of the host's cluster
	Generation                  int64
	Errors                      kit.Errors
}

// TaintLines formats taints for the form, one per line.
func TaintLines(taints []fleet.Taint) string {
	lines := make([]string, len(taints))
	for i, t := range taints {
		lines[i] = t.Text()
	}
	return strings.Join(lines, "\n")
}

// taintHelp says what each effect of a taint does.
var taintHelp = map[fleet.TaintEffect]string{
	fleet.NoSchedule:       "VMs without a toleration for this taint are not placed on this host",
	fleet.PreferNoSchedule: "VMs without a toleration for this taint are placed on other hosts if possible",
	fleet.NoExecute:        "VMs without a toleration for this taint are not placed on this host",
}

// allocatableText says what VMs can have on the host in total.
func allocatableText(c fleet.HostCapacity) string {
	return fleet.FormatCount(c.AllocatableCPUs) + " vCPUs and " + kit.Bytes(c.AllocatableMemoryMiB<<20) + " of memory can be allocated to VMs now."
}
