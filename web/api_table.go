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
		op(post, "/vms/series", policy.VMChange, accepted, "create-vms", "Create several VMs that are alike: a task with a child for each, whose names count", s.apiCreateVMs),
		op(get, "/vms/{id}", policy.VMSee, ok, "get-vm", "Get a VM", s.apiGetVM),
		op(patchOne, "/vms/{id}", policy.VMChange, ok, "update-vm", "Change a VM by a JSON merge patch", s.apiUpdateVM),
		op(remove, "/vms/{id}", policy.VMChange, accepted, "delete-vm", "Delete a VM, with or without its disks", s.apiDeleteVM),
		op(post, "/vms/{id}/actions", policy.VMUse, accepted, "act-on-vm", "Start, shut down, stop, reboot, reset, pause or resume a VM", s.apiActOnVM),
		op(post, "/vms/actions", policy.VMUse, accepted, "act-on-vms", "Ask one action of many VMs: a task with a child for each, listed by the filter parent:<its id>", s.apiActOnVMs),
		op(post, "/vms/{id}/console", policy.VMUse, created, "open-console", "Get a ticket for a VM's console", s.apiOpenConsole),
		op(post, "/vms/{id}/disks/detach", policy.VMChange, ok, "detach-disk", "Take a disk that is not there out of a VM; deletes no data", s.apiDetachDisk),
		op(post, "/vms/{id}/disks/replace", policy.VMChange, ok, "replace-disk", "Ask for a new disk in the place of one that is not there", s.apiReplaceDisk),
		op(post, "/vms/{id}/disks/image", policy.VMChange, accepted, "make-image-of-disk", "Make an image of the disk of a VM that is off, for its project", s.apiImageOfDisk),
		op(get, "/vms/{id}/leave", policy.InfraChange, ok, "list-leave-targets", "List the hosts that a VM could be moved to, with the pools there, with why not", s.apiLeaveTargets),
		op(post, "/vms/{id}/leave", policy.InfraChange, accepted, "leave-host", "Move a VM that is off to another host, with its disks; cancel its task to leave it where it is", s.apiLeaveVM),
		op(post, "/vms/{id}/disks/grow", policy.VMChange, ok, "grow-disk", "Make a disk of a VM larger, which a guest that runs sees at once", s.apiGrowDisk),
		op(get, "/vms/{id}/disks/move", policy.InfraChange, ok, "list-move-targets", "List the pools that a disk could be moved to, with why not", s.apiMoveTargets),
		op(post, "/vms/{id}/disks/move", policy.InfraChange, accepted, "move-disk", "Move a disk of a VM to another pool of its host, running or off; cancel its task to leave it where it is", s.apiMoveDisk),
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
		op(remove, "/pools/{id}", policy.InfraChange, accepted, "delete-pool", "Delete a storage pool; its data stays", apiDelete[PoolPath](s)),
		op(get, "/pools/{id}/volumes", policy.StorageSee, ok, "list-pool-volumes", "List the volumes of a pool", s.apiPoolVolumes),
		op(post, "/pools/{id}/volumes", policy.InfraChange, accepted, "create-volume", "Make a volume in a pool", s.apiCreateVolume),
		op(post, "/pools/{id}/downloads", policy.InfraChange, accepted, "download-volume", "Let a host download a volume into a pool", s.apiFetchVolume),
		op(post, "/pools/{id}/volumes/{volume}/grow", policy.InfraChange, accepted, "grow-volume", "Make a volume larger that no VM uses", s.apiGrowVolume),
		op(post, "/pools/{id}/volumes/{volume}/clone", policy.InfraChange, accepted, "clone-volume", "Copy a volume with which no VM runs, in its pool", s.apiCloneVolume),
		op(post, "/pools/{id}/volumes/{volume}/rename", policy.InfraChange, accepted, "rename-volume", "Give a volume that nobody uses another name, never one that is taken", s.apiRenameVolume),
		op(post, "/pools/{id}/volumes/{volume}/wipe", policy.InfraChange, accepted, "wipe-volume", "Write zeros over all that is in a volume that nobody uses", s.apiWipeVolume),
		op(remove, "/pools/{id}/volumes/{volume}", policy.InfraChange, accepted, "delete-volume", "Delete a volume that nobody uses", s.apiDeleteVolume),
		op(put, "/pools/{id}/images/{volume}", policy.InfraChange, noContent, "publish-image", "Let tenants clone a volume, or put it into a drive", s.apiPublishImage),
		op(remove, "/pools/{id}/images/{volume}", policy.InfraChange, noContent, "withdraw-image", "Take a published volume from tenants; what has it keeps it", s.apiWithdrawImage),
		op(post, "/pools/{id}/credentials", policy.InfraChange, accepted, "change-pool-credentials", "Change the secret by which a pool's storage knows its hosts; a task for each host, 200 at most", s.apiChangeCredentials),
		op(get, "/pools/{id}/vms", policy.VMSee, ok, "list-pool-vms", "List the VMs that have disks in a pool", s.apiPoolVMs),
		op(get, "/pools/{id}/hosts", policy.InfraSee, ok, "list-pool-hosts", "List a pool's health on each host, those first that want a person", s.apiPoolHosts),
		op(put, "/pools/{id}/hosts/{host}", policy.InfraChange, accepted, "assign-pool", "Put a pool on a host", apiAssign[PoolHostPath](s)),
		op(remove, "/pools/{id}/hosts/{host}", policy.InfraChange, accepted, "release-pool", "Take a pool from a host; its data stays", apiOnHost[PoolHostPath](s, s.Control.Release)),
		op(post, "/pools/{id}/hosts/{host}/retry", policy.InfraChange, accepted, "retry-pool", "Set a pool up on a host again", apiOnHost[PoolHostPath](s, s.Control.Retry)),
		op(post, "/pools/{id}/retry", policy.InfraChange, accepted, "retry-pool-everywhere", "Set a pool up again on all hosts where it failed, 200 at most; a task for each", apiRetryEverywhere[PoolPath](s)),
		op(get, "/pools/{id}/selector", policy.InfraSee, ok, "get-pool-selector", "Get the labels of the hosts that get a pool by themselves, and where it is not as they ask", apiSelector[PoolPath](s)),
		op(put, "/pools/{id}/selector", policy.InfraChange, ok, "set-pool-selector", "Set the labels of the hosts that get a pool by themselves; those that have them get it at once", apiSetSelector[poolSelectorInput](s)),

		op(get, "/images", policy.StorageSee, ok, "list-images", "List the images of the library", list(s.Control.ListImages)),
		op(post, "/images", policy.InfraChange, created, "add-image", "Add an image: a file of a pool, a download, or a VM's disk", s.apiAddImage),
		op(get, "/start-images", policy.InfraSee, ok, "list-start-images", "List the well-known images, with what was pulled of each and how it went the last time", s.apiStartImages),
		op(post, "/start-images", policy.InfraChange, created, "add-start-image", "Add an entry to the well-known images", s.apiAddStartImage),
		op(get, "/start-images/{id}", policy.InfraSee, ok, "get-start-image", "Get a well-known image", s.apiGetStartImage),
		op(patchOne, "/start-images/{id}", policy.InfraChange, ok, "update-start-image", "Change or replace a well-known image; what was pulled of it stays", s.apiEditStartImage),
		op(remove, "/start-images/{id}", policy.InfraChange, noContent, "remove-start-image", "Remove an entry from the well-known images; what was pulled of it stays", s.apiRemoveStartImage),
		op(post, "/start-images/restore", policy.InfraChange, noContent, "restore-start-images", "Bring back the entries that came with Quantix, as they came; others stay", s.apiRestoreStartImages),
		op(post, "/start-images/{id}/pull", policy.InfraChange, accepted, "pull-start-image", "Let a host download a well-known image into a pool, as an image of the library or one more version of it", s.apiPullStartImage),
		op(get, "/templates", policy.StorageSee, ok, "list-templates", "List templates, with their versions and the VMs that were made from them", list(s.Control.ListTemplates)),
		op(post, "/templates", policy.VMChange, created, "add-template", "Make a template of a VM, for its project", s.apiAddTemplate),
		op(get, "/templates/{id}", policy.StorageSee, ok, "get-template", "Get a template with its versions", s.apiGetTemplate),
		op(patchOne, "/templates/{id}", policy.VMChange, ok, "update-template", "Change what people say of a template", s.apiEditTemplate),
		op(remove, "/templates/{id}", policy.VMChange, accepted, "delete-template", "Delete a template with its images and their files; refused while linked clones stand on them", s.apiDeleteTemplate),
		op(post, "/templates/{id}/versions", policy.VMChange, accepted, "add-template-version", "Add a version to a template, which is the newest then", s.apiAddTemplateVersion),
		op(post, "/templates/{id}/versions/{version}/deprecate", policy.VMChange, noContent, "deprecate-template-version", "Let no VM be made from a version any more, or let them be made again; what was made stays", s.apiDeprecateVersion),
		op(remove, "/templates/{id}/versions/{version}", policy.VMChange, accepted, "delete-template-version", "Delete a version with its images and their files; refused while linked clones stand on them", s.apiDeleteTemplateVersion),
		op(put, "/templates/{id}/grants/{project}", policy.InfraChange, noContent, "grant-template", "Publish a template with its images to a project, or to \"all\"", s.apiGrantTemplate),
		op(remove, "/templates/{id}/grants/{project}", policy.InfraChange, noContent, "revoke-template", "Withdraw a template from a project, or from \"all\"; what was made from it stays", s.apiRevokeTemplate),
		op(get, "/images/{id}", policy.StorageSee, ok, "get-image", "Get an image with its versions and their copies", s.apiGetImage),
		op(patchOne, "/images/{id}", policy.InfraChange, ok, "update-image", "Change what people say of an image", s.apiEditImage),
		op(remove, "/images/{id}", policy.VMChange, accepted, "delete-image", "Delete an image, with or without the files of its copies; refused while disks stand on one", s.apiDeleteImage),
		op(post, "/images/{id}/versions", policy.InfraChange, accepted, "add-image-version", "Add a version to an image, which is the newest then", s.apiAddImageVersion),
		op(post, "/images/{id}/copies", policy.InfraChange, accepted, "copy-image", "Copy a version to a pool; no task where the pool has its bytes already", s.apiCopyImage),
		op(post, "/images/{id}/copies/{pool}/{volume}/verify", policy.InfraChange, accepted, "verify-image-copy", "Let a host compute the checksum of a copy", s.apiVerifyCopy),
		op(post, "/images/{id}/copies/{pool}/{volume}/forget", policy.InfraChange, noContent, "forget-image-copy", "Take a copy out of the library; its file stays", s.apiForgetCopy),
		op(remove, "/images/{id}/copies/{pool}/{volume}", policy.InfraChange, accepted, "delete-image-copy", "Delete the file of a copy", s.apiDeleteCopy),
		op(put, "/images/{id}/grants/{project}", policy.InfraChange, noContent, "grant-image", "Publish an image to a project, or to \"all\"", s.apiGrantImage),
		op(remove, "/images/{id}/grants/{project}", policy.InfraChange, noContent, "revoke-image", "Withdraw an image from a project, or from \"all\"; what was made from it stays", s.apiRevokeImage),

		op(get, "/networks", policy.StorageSee, ok, "list-networks", "List networks", list(s.Control.ListNetworksInFull)),
		op(post, "/networks", policy.InfraChange, created, "create-network", "Define a network of libvirt on some hosts", s.apiCreateNetwork),
		op(get, "/networks/{id}", policy.StorageSee, ok, "get-network", "Get a network, and on which hosts: the first 50, those that want a person before the others", s.apiGetNetwork),
		op(get, "/networks/{id}/hosts", policy.InfraSee, ok, "list-network-hosts", "List a network on each host, those first that want a person", s.apiNetworkHosts),
		op(remove, "/networks/{id}", policy.InfraChange, accepted, "delete-network", "Delete a network that is defined here; refused while VMs have cards on it", apiDelete[NetworkPath](s)),
		op(put, "/networks/{id}/hosts/{host}", policy.InfraChange, accepted, "assign-network", "Put a network on a host", apiAssign[NetworkHostPath](s)),
		op(remove, "/networks/{id}/hosts/{host}", policy.InfraChange, accepted, "release-network", "Take a network from a host", apiOnHost[NetworkHostPath](s, s.Control.Release)),
		op(post, "/networks/{id}/hosts/{host}/retry", policy.InfraChange, accepted, "retry-network", "Set a network up on a host again", apiOnHost[NetworkHostPath](s, s.Control.Retry)),
		op(post, "/networks/{id}/retry", policy.InfraChange, accepted, "retry-network-everywhere", "Set a network up again on all hosts where it failed, 200 at most; a task for each", apiRetryEverywhere[NetworkPath](s)),
		op(get, "/networks/{id}/selector", policy.InfraSee, ok, "get-network-selector", "Get the labels of the hosts that get a network by themselves, and where it is not as they ask", apiSelector[NetworkPath](s)),
		op(put, "/networks/{id}/selector", policy.InfraChange, ok, "set-network-selector", "Set the labels of the hosts that get a network by themselves; those that have them get it at once", apiSetSelector[networkSelectorInput](s)),
		op(get, "/networks/{id}/addresses", policy.InfraSee, ok, "get-network-addresses", "Get who has which address of a network that is defined here, what is reserved, and what is wrong", s.apiNetworkAddresses),
		op(put, "/networks/{id}/reservations/{mac}", policy.InfraChange, accepted, "reserve-address", "Keep an IPv4 address for the card with a MAC address, on all hosts of the network; a task for each", s.apiReserve),
		op(remove, "/networks/{id}/reservations/{mac}", policy.InfraChange, accepted, "free-address", "Give the address back that is kept for a card", s.apiFreeAddress),
		op(get, "/vms/{id}/addresses", policy.VMSee, ok, "get-vm-addresses", "Get what is known of the addresses of a VM's cards: from which source, and what is reserved", s.apiVMAddresses),
		op(get, "/networks/{id}/port-groups", policy.StorageSee, ok, "list-port-groups", "List a network's port groups, those that you may know of", s.apiPortGroups),
		op(put, "/networks/{id}/port-groups/{group}", policy.InfraChange, accepted, "set-port-group", "Give a network that is defined here a port group, or change it, on all its hosts and for the cards that are on it; a task for each host", s.apiSetPortGroup),
		op(remove, "/networks/{id}/port-groups/{group}", policy.InfraChange, accepted, "drop-port-group", "Take a port group from its network; refused while VMs have cards on it", s.apiDropPortGroup),
		op(put, "/networks/{id}/port-groups/{group}/grants/{project}", policy.InfraChange, noContent, "grant-port-group", "Open a port group to a project, or to \"all\"", s.apiGrantPortGroup),
		op(remove, "/networks/{id}/port-groups/{group}/grants/{project}", policy.InfraChange, noContent, "revoke-port-group", "Close a port group to a project, or to \"all\"; VMs on it stay", s.apiRevokePortGroup),
		op(put, "/networks/{id}/grants/{project}", policy.InfraChange, noContent, "grant-network", "Open a network that leads out of its hosts to a project, or to \"all\"", s.apiGrantNetwork),
		op(remove, "/networks/{id}/grants/{project}", policy.InfraChange, noContent, "revoke-network", "Close a network to a project, or to \"all\"; VMs on it stay", s.apiRevokeNetwork),

		op(get, "/security-groups", policy.VMSee, ok, "list-security-groups", "List security groups: the fleet's, and those of one's projects", list(s.Control.ListSecurityGroups)),
		op(post, "/security-groups", policy.VMChange, created, "create-security-group", "Make a security group in a project, or one of the fleet", s.apiCreateSecurityGroup),
		op(get, "/security-groups/test", policy.VMSee, ok, "would-pass", "Ask whether a connection would pass the network cards at its ends, and by which rules", s.apiWouldPass),
		op(get, "/security-groups/{id}", policy.VMSee, ok, "get-security-group", "Get a security group with its cards and hosts", s.apiGetSecurityGroup),
		op(patchOne, "/security-groups/{id}", policy.VMChange, ok, "update-security-group", "Change a security group by a JSON merge patch; its hosts take new rules at once", s.apiUpdateSecurityGroup),
		op(remove, "/security-groups/{id}", policy.VMChange, noContent, "delete-security-group", "Delete a security group that no card is in and no other group's rules name", s.apiDeleteSecurityGroup),
		op(post, "/security-groups/{id}/retry", policy.VMChange, noContent, "retry-security-group", "Let the hosts that could not apply a security group try again", s.apiRetrySecurityGroup),
		op(get, "/vms/{id}/filters", policy.VMSee, ok, "list-vm-filters", "List what passes the network cards of a VM, and whether its host applies it", s.apiCardFilters),

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

		op(get, "/uploads", policy.InfraChange, ok, "list-uploads", "List your own uploads that have not ended; they are made and continued by tus 1.0 at /pools/{id}/uploads", s.apiListUploads),
		op(get, "/uploads/{id}", policy.InfraChange, ok, "get-upload", "Get an upload of your own", s.apiGetUpload),

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
