package policy

import (
	"cmp"

	"quantix/internal/fleet"
)

// takes is the right that each action on a noun takes; one on a VM takes that of the work that it asks for.
var takes = map[string]map[fleet.Action]Permission{
	"host":    {fleet.ActEdit: InfraChange, fleet.ActClearConflict: InfraChange, fleet.ActJoinAgain: Manage, fleet.ActDelete: InfraChange},
	"pool":    {fleet.ActEdit: InfraChange, fleet.ActCredentials: InfraChange, fleet.ActAssign: InfraChange, fleet.ActDelete: InfraChange, fleet.ActRetry: InfraChange, fleet.ActRelease: InfraChange},
	"network": {fleet.ActEdit: InfraChange, fleet.ActGrant: InfraChange, fleet.ActAssign: InfraChange, fleet.ActDelete: InfraChange, fleet.ActRetry: InfraChange, fleet.ActRelease: InfraChange},
	"image": {
		fleet.ActPublish: InfraChange, fleet.ActWithdraw: InfraChange, fleet.ActVersion: InfraChange, fleet.ActCopy: InfraChange, fleet.ActVerify: InfraChange,
		fleet.ActForget: InfraChange, fleet.ActPull: InfraChange, fleet.ActEdit: InfraChange, fleet.ActDelete: InfraChange,
	},
	"template": {
		fleet.ActPublish: InfraChange, fleet.ActNewVM: VMChange, fleet.ActEdit: VMChange, fleet.ActDelete: VMChange, fleet.ActDeprecate: VMChange, fleet.ActOffer: VMChange,
	},
	"volume":  {fleet.ActGrow: InfraChange, fleet.ActClone: InfraChange, fleet.ActWipe: InfraChange, fleet.ActDelete: InfraChange},
	"project": {fleet.ActEdit: Manage, fleet.ActDelete: Manage},
	"user":    {fleet.ActEdit: Manage, fleet.ActPassword: Manage, fleet.ActDelete: Manage},
}

// Takes is the right that the action on an object of the noun takes.
func Takes(noun string, a fleet.Action) Permission {
	if r, ok := takes[noun][a]; ok {
		return r
	}
	if noun == "vm" && a == fleet.ActProtect {
		return VMChange
	}
	if noun == "vm" {
		return cmp.Or(a.Job().Is().Permission, VMUse)
	}
	return Manage
}

// ToCancel is the right that taking a task back takes: that of its kind, or that of whoever runs the hosts where it is of no project.
// What it is about in many projects is asked for each.
func ToCancel(t fleet.Task) Permission {
	if t.ProjectID == "" && t.Steps == nil {
		return InfraChange
	}
	return t.Kind.Is().Permission
}

// Offer is what the object allows, cut by what the actor may do; a missing right is the reason before any other. project is that
// of a VM; empty for other nouns.
func Offer(a fleet.Actor, noun string, project fleet.ProjectID, states []fleet.ActionState) []fleet.ActionState {
	out := make([]fleet.ActionState, len(states))
	for i, s := range states {
		if right := Takes(noun, s.Action); !May(a, right, project) {
			s.Allowed, s.Reason = false, lacks(right)
		}
		out[i] = s
	}
	return out
}

// OfferImage is Offer for an image of the library: one that is a project's own, its members delete too.
func OfferImage(a fleet.Actor, v fleet.ImageView) []fleet.ActionState {
	all := v.Actions()
	out := Offer(a, "image", "", all)
	for i := range out {
		if out[i].Action == fleet.ActDelete && v.ProjectID != "" && May(a, VMChange, v.ProjectID) {
			out[i] = all[i]
		}
	}
	return out
}

// OfferTemplate is Offer for a template, or a version of one, of the project; empty: one that the actor does not see. VMs are made from it in any project
// that may use it.
func OfferTemplate(a fleet.Actor, project fleet.ProjectID, states []fleet.ActionState) []fleet.ActionState {
	out := Offer(a, "template", project, states)
	for i, s := range states {
		if s.Action == fleet.ActNewVM && May(a, VMChange, "") {
			out[i] = s
		}
		if project == "" && Takes("template", s.Action) == VMChange && s.Action != fleet.ActNewVM && !May(a, InfraChange, "") {
			out[i].Allowed, out[i].Reason = false, lacks(VMChange)
		}
		if !out[i].Allowed && out[i].Reason == lacks(VMChange) {
			out[i].Reason = "Only members of its project may change it."
		}
	}
	return out
}

// lacks is why a right that is missing keeps the actor from something that is in sight.
func lacks(r Permission) string {
	switch r {
	case VMUse:
		return "You may see this VM, not use it."
	case VMChange:
		return "You may not change VMs of this project."
	}
	return "You have no right to " + string(r) + ". Ask an administrator."
}
