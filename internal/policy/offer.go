package policy

import (
	"cmp"

	"quantix/internal/fleet"
)

// permissionsByAction is the required permission by resource type and action. An action on a VM needs the permission of
// its job kind.
var permissionsByAction = addAssignedTypeActions(map[string]map[fleet.Action]Permission{
	"host": {
		fleet.ActEdit: InfraChange, fleet.ActCordon: InfraChange, fleet.ActUncordon: InfraChange, fleet.ActClearConflict: InfraChange,
		fleet.ActJoinAgain: Manage, fleet.ActDelete: InfraChange, fleet.ActEnterMaintenance: InfraChange, fleet.ActLeaveMaintenance: InfraChange,
		fleet.ActRebootHost: InfraChange, fleet.ActShutDownHost: InfraChange, fleet.ActDiagnoseHost: InfraChange, fleet.ActReadAgentLog: InfraChange,
		fleet.ActRestartAgent: InfraChange, fleet.ActUpgradeAgent: InfraChange, fleet.ActPowerOn: InfraChange, fleet.ActForcePowerOff: InfraChange,
		fleet.ActReset: InfraChange, fleet.ActTerminate: InfraChange,
	},
	"cluster": {fleet.ActEdit: InfraChange, fleet.ActAddHosts: InfraChange, fleet.ActDelete: InfraChange},
	"pool":    {fleet.ActCredentials: InfraChange},
	"network": {fleet.ActGrant: InfraChange},
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
})

// addAssignedTypeActions adds the actions that all types have whose objects users assign to hosts.
func addAssignedTypeActions(all map[string]map[fleet.Action]Permission) map[string]map[fleet.Action]Permission {
	for _, t := range fleet.AssignedResourceTypes() {
		if all[t.Label] == nil {
			all[t.Label] = map[fleet.Action]Permission{}
		}
		for _, act := range []fleet.Action{
			fleet.ActEdit, fleet.ActAssign, fleet.ActDelete, fleet.ActRetry, fleet.ActRelease, fleet.ActReapply, fleet.ActAcceptDrift, fleet.ActIgnoreDrift,
		} {
			all[t.Label][act] = InfraChange
		}
	}
	return all
}

// RequiredPermission returns the permission that an action on a resource type requires.
func RequiredPermission(kind string, a fleet.Action) Permission {
	if r, ok := permissionsByAction[kind][a]; ok {
		return r
	}
	if kind == "vm" && (a == fleet.ActProtect || a == fleet.ActIgnoreDrift) {
		return VMChange
	}
	if kind == "found" { // a VM that Quantix does not manage
		return InfraChange
	}
	if kind == "vm" {
		return cmp.Or(a.JobKind().Info().Permission, VMUse)
	}
	return Manage
}

// CancelPermission returns the permission that cancelling the task requires: that of the task's kind, or InfraChange
// for a task without a project. For a task with steps in many projects the caller checks each project.
func CancelPermission(t fleet.Task) Permission {
	if t.ProjectID == "" && t.Steps == nil {
		return InfraChange
	}
	return t.Kind.Info().Permission
}

// OmitsAction reports whether the actor's pages omit an action that requires the permission. Tenants do not see what no
// role of theirs in the project permits. Users who see hosts see such actions disabled, with the reason, because they
// know who can act. An action that is only impossible now is always disabled with its reason.
func OmitsAction(a fleet.Actor, r Permission, project fleet.ProjectID) bool {
	return !May(a, r, project) && !May(a, InfraSee, "")
}

// RestrictActions disallows the actions for which the actor lacks the permission; a missing permission replaces any
// other reason. project is a VM's project, and empty for other resource types.
func RestrictActions(a fleet.Actor, kind string, project fleet.ProjectID, states []fleet.ActionState) []fleet.ActionState {
	out := make([]fleet.ActionState, len(states))
	for i, s := range states {
		if permission := RequiredPermission(kind, s.Action); !May(a, permission, project) {
			s.Allowed, s.Reason, s.Absent = false, missingPermissionText(permission), OmitsAction(a, permission, project)
		}
		out[i] = s
	}
	return out
}

// RestrictImageActions works like RestrictActions for a library image. Members of the image's project may also delete
// the image.
func RestrictImageActions(a fleet.Actor, v fleet.ImageView) []fleet.ActionState {
	all := v.Actions()
	out := RestrictActions(a, "image", "", all)
	for i := range out {
		if out[i].Action == fleet.ActDelete && v.ProjectID != "" && May(a, VMChange, v.ProjectID) {
			out[i] = all[i]
		}
	}
	return out
}

// RestrictTemplateActions works like RestrictActions for a template or a template version. project is empty if the
// actor may not see the project. A permitted actor may create VMs from the template in any project.
func RestrictTemplateActions(a fleet.Actor, project fleet.ProjectID, states []fleet.ActionState) []fleet.ActionState {
	out := RestrictActions(a, "template", project, states)
	for i, s := range states {
		if s.Action == fleet.ActNewVM && May(a, VMChange, "") {
			out[i] = s
		}
		if project == "" && RequiredPermission("template", s.Action) == VMChange && s.Action != fleet.ActNewVM && !May(a, InfraChange, "") {
			out[i].Allowed, out[i].Reason, out[i].Absent = false, missingPermissionText(VMChange), OmitsAction(a, InfraChange, "")
		}
		if !out[i].Allowed && out[i].Reason == missingPermissionText(VMChange) {
			out[i].Reason = "Only members of the template's project may change the template."
		}
	}
	return out
}

// missingPermissionText returns the text for a missing permission.
func missingPermissionText(r Permission) string {
	switch r {
	case VMUse:
		return "You may see this VM but not use it."
	case VMChange:
		return "You may not change VMs of this project."
	}
	return "You do not have permission to " + string(r) + ". Ask an administrator."
}
