package network

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// GrantForm is the form that publishes the network to one more project.
type GrantForm struct {
	Projects kit.SelectChoices
	Errors   kit.Errors
}

func (p Page) publishing() kit.PublishingPanel {
	return kit.PublishingPanel{
		Noun: "network", Grants: fleet.ProjectGrants(p.Network.Grants), Path: views.NetworkPath(p.Network.ID, "grants"), MayPublish: policy.May(p.Actor, policy.InfraChange, ""),
		Projects: p.Grant.Projects, Errors: p.Grant.Errors, StayText: "VMs keep their NICs",
	}
}
