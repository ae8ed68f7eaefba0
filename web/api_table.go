package web

import (
	"net/http"

	"quantix/internal/policy"
)

const (
	put      = http.MethodPut
	patchOne = http.MethodPatch
	remove   = http.MethodDelete

	ok        = http.StatusOK
	created   = http.StatusCreated
	accepted  = http.StatusAccepted
	noContent = http.StatusNoContent
)

// operations lists all of /api/v1. 202 means that hosts have yet to do it: the answer is the task, or the tasks.
func (s *Server) operations() []operation {
	return []operation{
		op(get, "/vms", policy.VMSee, ok, "list-vms", "List VMs", list(s.Control.ListVMs)),
		op(post, "/vms", policy.VMChange, created, "create-vm", "Create a VM", s.apiCreateVM),
		op(get, "/vms/{id}", policy.VMSee, ok, "get-vm", "Get a VM", s.apiGetVM),
		op(patchOne, "/vms/{id}", policy.VMChange, ok, "update-vm", "Change a VM by a JSON merge patch", s.apiUpdateVM),
		op(remove, "/vms/{id}", policy.VMChange, accepted, "delete-vm", "Delete a VM, with or without its disks", s.apiDeleteVM),
		op(post, "/vms/{id}/actions", policy.VMUse, accepted, "act-on-vm", "Start, shut down, stop, reboot, reset, pause or resume a VM", s.apiActOnVM),
		op(post, "/vms/actions", policy.VMUse, accepted, "act-on-vms", "Ask one action of many VMs: a task with a child for each, listed by the filter parent:<its id>", s.apiActOnVMs),
		op(post, "/vms/{id}/console", policy.VMUse, created, "open-console", "Get a ticket for a VM's console", s.apiOpenConsole),
		op(post, "/vms/{id}/disks/detach", policy.VMChange, ok, "detach-disk", "Take a disk that is not there out of a VM; deletes no data", s.apiDetachDisk),
		op(post, "/vms/{id}/disks/replace", policy.VMChange, ok, "replace-disk", "Ask for a new disk in the place of one that is not there", s.apiReplaceDisk),
		op(post, "/vms/{id}/takeover", policy.VMChange, ok, "take-over-vm", "Make what somebody changed on the host what is wanted", s.apiTakeOver),
		op(post, "/vms/{id}/place", policy.InfraChange, ok, "place-vm", "Say where a VM is, when hosts disagree", s.apiPlaceVM),
		op(post, "/vms/{id}/putback", policy.VMChange, accepted, "put-back-vm", "Undo what somebody changed on the host", s.apiPutBack),
		op(get, "/vms/{id}/events", policy.VMSee, ok, "get-vm-events", "Get what happened to a VM", s.apiVMEvents),

		op(get, "/hosts", policy.InfraSee, ok, "list-hosts", "List hosts", list(s.Control.ListHosts)),
		op(get, "/hosts/{id}", policy.InfraSee, ok, "get-host", "Get a host", s.apiGetHost),
		op(patchOne, "/hosts/{id}", policy.InfraChange, ok, "update-host", "Change a host's labels or description by a JSON merge patch", s.apiUpdateHost),
		op(remove, "/hosts/{id}", policy.InfraChange, noContent, "delete-host", "Forget a host that has no VMs", s.apiDeleteHost),
		op(post, "/hosts/{id}/actions", policy.InfraChange, ok, "act-on-host", "Clear a host's identity conflict", s.apiActOnHost),
		op(get, "/hosts/{id}/discovered-vms", policy.InfraSee, ok, "list-discovered-vms", "List the VMs of a host that Quantix did not make", s.apiFoundVMs),

		op(get, "/pools", policy.StorageSee, ok, "list-pools", "List storage pools", list(s.Control.ListPoolsInFull)),
		op(post, "/pools", policy.InfraChange, created, "create-pool", "Create a storage pool on some hosts", s.apiCreatePool),
		op(get, "/pools/{id}", policy.StorageSee, ok, "get-pool", "Get a storage pool with its health, and on which hosts: the first 50, those that want a person before the others", s.apiGetPool),
		op(remove, "/pools/{id}", policy.InfraChange, accepted, "delete-pool", "Delete a storage pool; its data stays", s.apiDeletePool),
		op(get, "/pools/{id}/volumes", policy.StorageSee, ok, "list-pool-volumes", "List the volumes of a pool", s.apiPoolVolumes),
		op(post, "/pools/{id}/volumes", policy.InfraChange, accepted, "create-volume", "Make a volume in a pool", s.apiCreateVolume),
		op(post, "/pools/{id}/downloads", policy.InfraChange, accepted, "download-volume", "Let a host download a volume into a pool", s.apiFetchVolume),
		op(post, "/pools/{id}/volumes/{volume}/grow", policy.InfraChange, accepted, "grow-volume", "Make a volume larger that no VM uses", s.apiGrowVolume),
		op(post, "/pools/{id}/volumes/{volume}/clone", policy.InfraChange, accepted, "clone-volume", "Copy a volume with which no VM runs, in its pool", s.apiCloneVolume),
		op(post, "/pools/{id}/volumes/{volume}/wipe", policy.InfraChange, accepted, "wipe-volume", "Write zeros over all that is in a volume that nobody uses", s.apiWipeVolume),
		op(remove, "/pools/{id}/volumes/{volume}", policy.InfraChange, accepted, "delete-volume", "Delete a volume that nobody uses", s.apiDeleteVolume),
		op(put, "/pools/{id}/images/{volume}", policy.InfraChange, noContent, "publish-image", "Let tenants clone a volume, or put it into a drive", s.apiPublishImage),
		op(remove, "/pools/{id}/images/{volume}", policy.InfraChange, noContent, "withdraw-image", "Take a published volume from tenants; what has it keeps it", s.apiWithdrawImage),
		op(get, "/pools/{id}/vms", policy.VMSee, ok, "list-pool-vms", "List the VMs that have disks in a pool", s.apiPoolVMs),
		op(get, "/pools/{id}/hosts", policy.InfraSee, ok, "list-pool-hosts", "List a pool's health on each host, those first that want a person", s.apiPoolHosts),
		op(put, "/pools/{id}/hosts/{host}", policy.InfraChange, accepted, "assign-pool", "Put a pool on a host", s.apiAssignPool),
		op(remove, "/pools/{id}/hosts/{host}", policy.InfraChange, accepted, "release-pool", "Take a pool from a host; its data stays", s.apiReleasePool),
		op(post, "/pools/{id}/hosts/{host}/retry", policy.InfraChange, accepted, "retry-pool", "Set a pool up on a host again", s.apiRetryPool),
		op(post, "/pools/{id}/retry", policy.InfraChange, accepted, "retry-pool-everywhere", "Set a pool up again on all hosts where it failed, 200 at most; a task for each", s.apiRetryPoolEverywhere),
		op(get, "/pools/{id}/selector", policy.InfraSee, ok, "get-pool-selector", "Get the labels of the hosts that get a pool by themselves, and where it is not as they ask", s.apiPoolSelector),
		op(put, "/pools/{id}/selector", policy.InfraChange, ok, "set-pool-selector", "Set the labels of the hosts that get a pool by themselves; those that have them get it at once", s.apiSetPoolSelector),

		op(get, "/networks", policy.StorageSee, ok, "list-networks", "List networks", list(s.Control.ListNetworksInFull)),
		op(post, "/networks", policy.InfraChange, created, "create-network", "Define a network of libvirt on some hosts", s.apiCreateNetwork),
		op(get, "/networks/{id}", policy.StorageSee, ok, "get-network", "Get a network, and on which hosts: the first 50, those that want a person before the others", s.apiGetNetwork),
		op(get, "/networks/{id}/hosts", policy.InfraSee, ok, "list-network-hosts", "List a network on each host, those first that want a person", s.apiNetworkHosts),
		op(remove, "/networks/{id}", policy.InfraChange, accepted, "delete-network", "Delete a network that is defined here; refused while VMs have cards on it", s.apiDeleteNetwork),
		op(put, "/networks/{id}/hosts/{host}", policy.InfraChange, accepted, "assign-network", "Put a network on a host", s.apiAssignNetwork),
		op(remove, "/networks/{id}/hosts/{host}", policy.InfraChange, accepted, "release-network", "Take a network from a host", s.apiReleaseNetwork),
		op(post, "/networks/{id}/hosts/{host}/retry", policy.InfraChange, accepted, "retry-network", "Set a network up on a host again", s.apiRetryNetwork),
		op(post, "/networks/{id}/retry", policy.InfraChange, accepted, "retry-network-everywhere", "Set a network up again on all hosts where it failed, 200 at most; a task for each", s.apiRetryNetworkEverywhere),
		op(get, "/networks/{id}/selector", policy.InfraSee, ok, "get-network-selector", "Get the labels of the hosts that get a network by themselves, and where it is not as they ask", s.apiNetworkSelector),
		op(put, "/networks/{id}/selector", policy.InfraChange, ok, "set-network-selector", "Set the labels of the hosts that get a network by themselves; those that have them get it at once", s.apiSetNetworkSelector),
		op(put, "/networks/{id}/grants/{project}", policy.InfraChange, noContent, "grant-network", "Open a network that leads out of its hosts to a project, or to \"all\"", s.apiGrantNetwork),
		op(remove, "/networks/{id}/grants/{project}", policy.InfraChange, noContent, "revoke-network", "Close a network to a project, or to \"all\"; VMs on it stay", s.apiRevokeNetwork),

		op(get, "/projects", policy.VMSee, ok, "list-projects", "List projects", list(s.Control.ListProjects)),
		op(post, "/projects", policy.Manage, created, "create-project", "Create a project", s.apiCreateProject),
		op(get, "/projects/{id}", policy.VMSee, ok, "get-project", "Get a project", s.apiGetProject),
		op(patchOne, "/projects/{id}", policy.Manage, ok, "update-project", "Change a project by a JSON merge patch", s.apiUpdateProject),
		op(remove, "/projects/{id}", policy.Manage, noContent, "delete-project", "Delete an empty project", s.apiDeleteProject),
		op(get, "/projects/{id}/members", policy.VMSee, ok, "list-members", "List a project's members", s.apiMembers),
		op(put, "/projects/{id}/members/{user}", policy.Manage, noContent, "set-member", "Give a user a role in a project", s.apiSetMember),
		op(remove, "/projects/{id}/members/{user}", policy.Manage, noContent, "remove-member", "Take a user out of a project", s.apiRemoveMember),

		op(get, "/users", policy.Manage, ok, "list-users", "List users", list(s.Control.ListUsers)),
		op(post, "/users", policy.Manage, created, "create-user", "Create a user with a one-time password", s.apiCreateUser),
		op(get, "/users/{id}", policy.Self, ok, "get-user", "Get a user; \"me\" is who asks", s.apiGetUser),
		op(patchOne, "/users/{id}", policy.Manage, ok, "update-user", "Change a user by a JSON merge patch", s.apiUpdateUser),
		op(remove, "/users/{id}", policy.Manage, noContent, "delete-user", "Delete a user", s.apiDeleteUser),
		op(put, "/users/{id}/password", policy.Manage, noContent, "set-password", "Give a user a one-time password; ends their sessions and deletes their API tokens", s.apiSetPassword),

		op(get, "/tasks", policy.TasksSee, ok, "list-tasks", "List tasks, newest first", list(s.Control.ListTasks)),
		op(get, "/tasks/{id}", policy.TasksSee, ok, "get-task", "Get a task", s.apiGetTask),
		op(post, "/tasks/{id}/cancel", policy.TasksSee, ok, "cancel-task", "Cancel a task that waits; of one with children, what nobody has begun", s.apiCancelTask),

		op(get, "/tokens", policy.Self, ok, "list-tokens", "List your own API tokens", list(s.Control.ListTokens)),
		op(post, "/tokens", policy.Self, created, "create-token", "Create an API token; its secret is in this answer only", s.apiCreateToken),
		op(remove, "/tokens/{id}", policy.Self, noContent, "delete-token", "Delete an API token of your own", s.apiDeleteToken),

		op(get, "/join-tokens", policy.Manage, ok, "list-join-tokens", "List join tokens", list(s.Control.ListJoinTokens)),
		op(post, "/join-tokens", policy.Manage, created, "create-join-token", "Create a join token; its secret is in this answer only", s.apiCreateJoinToken),
		op(remove, "/join-tokens/{id}", policy.Manage, noContent, "revoke-join-token", "Revoke a join token", s.apiRevokeJoinToken),
	}
}
