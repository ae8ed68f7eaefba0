package vm

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// showsClusters reports whether the form offers a choice of the cluster.
func (f Form) showsClusters() bool { return !f.Edits && len(f.Clusters) > 1 && f.MaySeeHosts }

// clusterField is the select of the cluster. After a change, the page loads the defaults of the chosen cluster.
func (f Form) clusterField() kit.Field {
	in := f.projectField()
	return f.field("clusterId", kit.Field{Label: "Cluster", Attrs: in.Attrs})
}

func (f Form) clusterOptions() []kit.Option {
	out := []kit.Option{{Text: "Any cluster"}}
	for _, c := range f.Clusters {
		out = append(out, kit.Option{Value: string(c.ID), Text: c.Name})
	}
	return out
}

// possibleClusters returns the clusters where the new VM may be placed.
func (f Form) possibleClusters() []fleet.Cluster {
	id := f.HostCluster
	if id == "" {
		id = fleet.ClusterID(f.Typed.Get("clusterId"))
	}
	for i, c := range f.Clusters {
		if c.ID == id {
			return f.Clusters[i : i+1]
		}
	}
	return f.Clusters
}

// cpuModelDefault is the CPU model that a new VM gets if none is chosen: "Cluster default: Haswell-noTSX". It is empty
// without a cluster default.
func (f Form) cpuModelDefault() string {
	if f.Edits {
		return ""
	}
	text := ""
	for i, c := range f.possibleClusters() {
		switch model := c.Spec.CPUModel; {
		case i == 0 && model != "":
			text = "Cluster default: " + model
		case i > 0 && text != "" && text != "Cluster default: "+model, i > 0 && text == "" && model != "":
			return "Cluster default"
		}
	}
	return text
}

// withClusterDefault returns the field's input, for the CPU model with the cluster's default as the placeholder.
func (f Form) withClusterDefault(p formField) fleet.FormInput {
	in := p.input
	if text := f.cpuModelDefault(); p.name == cpuModelField && text != "" {
		in.Example = text
	}
	return in
}

const cpuModelField = "spec.cpu.model"

// placementHeading is the heading of the section that, for tenants, has only the project.
func (f Form) placementHeading(placement, project string) string {
	if f.MaySeeHosts {
		return placement
	}
	return project
}

func (f Form) noNetworksText() string {
	if f.MaySeeHosts {
		return "No host has reported a network yet. The VM is created without a NIC."
	}
	return "No network is published to your projects. The VM is created without a NIC."
}
