package api

import (
	"net/http"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete

	ok        = http.StatusOK
	created   = http.StatusCreated
	accepted  = http.StatusAccepted
	noContent = http.StatusNoContent
)

// operations lists all operations of /api/v1. Status 202 means that hosts still have work to do; the response then
// holds the tasks.
func (api *API) operations() []operation {
	return []operation{
		newOperation(get, "/vms", policy.VMSee, ok, "list-vms", "List VMs", listOperation(api.Control.ListVMs)),
		newOperation(post, "/vms", policy.VMChange, created, "create-vm", "Create a VM", api.createVM),
		newOperation(post, "/vms/bulk-create", policy.VMChange, accepted, "create-vms", "Create several VMs with the same settings: one task with a child for each VM; the names are numbered", api.createVMs),
		newOperation(get, "/vms/{id}", policy.VMSee, ok, "get-vm", "Get a VM", api.getVM),
		newOperation(patch, "/vms/{id}", policy.VMChange, ok, "update-vm", "Change a VM by a JSON merge patch", api.updateVM),
		newOperation(remove, "/vms/{id}", policy.VMChange, accepted, "delete-vm", "Delete a VM, with or without its disks", api.deleteVM),
		newOperation(post, "/vms/edit", policy.VMChange, accepted, "edit-vms", "Make the same change to many VMs: one task with a child for each VM, listed by the filter parent:<task id>", api.editVMs),
		newOperation(post, "/vms/plan", policy.VMChange, accepted, "plan-new-vm", "Preview a new VM without creating it; its host is asked for the definition", api.planNewVM),
		newOperation(post, "/vms/{id}/plan", policy.VMChange, accepted, "plan-vm", "Preview the effect of a JSON merge patch on a VM without changing it; its host is asked for the definition", api.planVMEdit),
		newOperation(get, "/plans/{id}", policy.VMChange, ok, "get-plan", "Get a plan of your own, with the host's answer once it has arrived", getObject(api.Control.GetPlan)),
		newOperation(post, "/vms/{id}/actions", policy.VMUse, accepted, "act-on-vm", "Start, shut down, stop, reboot, reset, pause or resume a VM", api.actOnVM),
		newOperation(post, "/vms/actions", policy.VMUse, accepted, "act-on-vms", "Start one action on many VMs: one task with a child for each VM, listed by the filter parent:<task id>", api.actOnVMs),
		newOperation(post, "/vms/{id}/console", policy.VMUse, created, "open-console", "Get a ticket for a VM's console", api.createConsoleTicket),
		newOperation(post, "/vms/{id}/disks/detach", policy.VMChange, ok, "detach-disk", "Remove a missing disk from a VM; deletes no data", api.detachDisk),
		newOperation(post, "/vms/{id}/disks/replace", policy.VMChange, ok, "replace-disk", "Replace a missing disk of a VM by a new disk", api.replaceDisk),
		newOperation(post, "/vms/{id}/disks/image", policy.VMChange, accepted, "make-image-of-disk", "Create an image of a stopped VM's disk, for the VM's project", api.createDiskImage),
		newOperation(get, "/vms/{id}/migrate", policy.InfraChange, ok, "list-migration-targets", "List the hosts and pools that a VM could migrate to, with the reason for each that is unsuitable", api.listMigrationTargets),
		newOperation(post, "/vms/{id}/migrate", policy.InfraChange, accepted, "migrate-vm", "Migrate a stopped VM with its disks to another host; cancel the task to leave the VM on its host", api.migrateVM),
		newOperation(post, "/vms/{id}/disks/grow", policy.VMChange, ok, "grow-disk", "Enlarge a disk of a VM; a running guest sees the new size at once", api.growDisk),
		newOperation(get, "/vms/{id}/disks/move", policy.InfraChange, ok, "list-move-targets", "List the pools that a disk could be moved to, with the reason for each that is unsuitable", api.listMoveTargets),
		newOperation(post, "/vms/{id}/disks/move", policy.InfraChange, accepted, "move-disk", "Move a disk of a running or stopped VM to another pool of its host; cancel the task to leave the disk in its pool", api.moveDisk),
		newOperation(get, "/vms/{id}/snapshots", policy.VMSee, ok, "list-snapshots", "Get the snapshots of a VM as its host last reported them", api.listSnapshots),
		newOperation(post, "/vms/{id}/snapshots", policy.VMChange, accepted, "take-snapshot", "Take a snapshot of a VM, with or without memory", api.takeSnapshot),
		newOperation(post, "/vms/{id}/snapshots/{snapshot}/revert", policy.VMChange, accepted, "revert-snapshot", "Revert a VM to a snapshot; the current state is lost unless another snapshot holds it", api.revertSnapshot),
		newOperation(remove, "/vms/{id}/snapshots/{snapshot}", policy.VMChange, accepted, "delete-snapshot", "Delete a snapshot, with or without its descendants; the VM's current state does not change", api.deleteSnapshot),
		newOperation(post, "/vms/{id}/consolidate", policy.VMChange, accepted, "consolidate-vm", "Merge the overlays that deleted snapshots of a VM left", api.consolidateSnapshots),
		newOperation(get, "/vms/{id}/snapshot-schedules", policy.VMSee, ok, "list-snapshot-schedules", "List the snapshot schedules of a VM, with the result of their last runs", api.listSchedules),
		newOperation(post, "/vms/{id}/snapshot-schedules", policy.VMChange, created, "create-snapshot-schedule", "Create a schedule that takes snapshots of a VM automatically and deletes those beyond its retention", api.addSchedule),
		newOperation(put, "/vms/{id}/snapshot-schedules/{schedule}", policy.VMChange, noContent, "update-snapshot-schedule", "Replace the settings of a snapshot schedule; the snapshots that it took stay its own", api.editSchedule),
		newOperation(remove, "/vms/{id}/snapshot-schedules/{schedule}", policy.VMChange, noContent, "delete-snapshot-schedule", "Delete a snapshot schedule; the snapshots that it took stay", api.deleteSchedule),
		newOperation(get, "/vms/{id}/first-boot", policy.VMChange, ok, "get-first-boot", "Get the first-boot data of a VM (cloud-init and the like); passwords are not shown", getObject(api.Control.FirstBoot)),
		newOperation(put, "/vms/{id}/first-boot", policy.VMChange, ok, "set-first-boot", "Set the first-boot data that a VM's guest gets at its next start; without a kind the guest gets none", api.setFirstBoot),
		newOperation(get, "/customizations", policy.VMSee, ok, "list-customizations", "List customization specs", api.listCustomizations),
		newOperation(post, "/customizations", policy.VMChange, created, "create-customization", "Create a customization spec: first-boot data with variables, for use by many VMs", createObject(api.Control.CreateCustomization)),
		newOperation(get, "/customizations/{id}", policy.VMSee, ok, "get-customization", "Get a customization spec; only users who may change the spec see its content", getObject(api.Control.GetCustomization)),
		newOperation(put, "/customizations/{id}", policy.VMChange, ok, "update-customization", "Change a customization spec; VMs created with it do not change", replaceObject(api.Control.UpdateCustomization)),
		newOperation(remove, "/customizations/{id}", policy.VMChange, noContent, "delete-customization", "Delete a customization spec; VMs created with it do not change", onObject(api.Control.DeleteCustomization)),
		newOperation(post, "/vms/{id}/accept-drift", policy.VMChange, ok, "accept-drift", "Accept drift: take settings that were changed on the host into the VM's spec", api.acceptDrift),
		newOperation(post, "/vms/{id}/place", policy.InfraChange, ok, "set-vm-host", "Set which host a VM is on when hosts disagree", api.setVMHost),
		newOperation(post, "/vms/{id}/reapply", policy.VMChange, accepted, "reapply-vm", "Undo drift: apply the VM's spec to its host again", api.reapplyDefinition),
		newOperation(get, "/vms/{id}/guest", policy.VMSee, ok, "get-guest", "Get what a VM's guest agent reports, and the actions that the agent offers", api.getGuest),
		newOperation(post, "/vms/{id}/guest", policy.VMUse, accepted, "ask-guest", "Request an action of the guest agent: freeze, thaw or trim file systems, set the clock or a password, or run a program if the VM's policy allows it", api.requestGuestAction),
		newOperation(put, "/vms/{id}/protection", policy.VMChange, ok, "protect-vm", "Set the protection of a VM: from deletion, by a lock with a reason, and its expiry date", api.protectVM),
		newOperation(get, "/vms/{id}/events", policy.VMSee, ok, "get-vm-events", "Get the events of a VM", api.vmEvents),

		newOperation(get, "/appliances", policy.InfraChange, ok, "list-appliances", "List the files in pools that a VM can be created from, as their hosts read them: OVA archives and other products' disks", api.listAppliances),
		newOperation(post, "/vms/{id}/exports", policy.VMChange, accepted, "export-vm", "Export a stopped VM to a file: an OVA archive, or one disk as qcow2", api.exportVM),
		newOperation(get, "/vms/{id}/exports", policy.VMChange, ok, "list-exports", "List the export files of a VM", api.listExports),
		newOperation(get, "/exports/{id}", policy.VMChange, ok, "get-export", "Get an export", getObject(api.Control.GetExport)),
		newOperation(remove, "/exports/{id}", policy.VMChange, noContent, "delete-export", "Delete the file of an export", onObject(api.Control.DeleteExport)),

		newOperation(get, "/hosts", policy.InfraSee, ok, "list-hosts", "List hosts", listOperation(api.Control.ListHosts)),
		newOperation(get, "/hosts/{id}", policy.InfraSee, ok, "get-host", "Get a host", api.getHost),
		newOperation(patch, "/hosts/{id}", policy.InfraChange, ok, "update-host", "Change a host's labels or description by a JSON merge patch", api.updateHost),
		newOperation(remove, "/hosts/{id}", policy.InfraChange, noContent, "delete-host", "Remove a host without VMs from Quantix", onObject(api.Control.DeleteHost)),
		newOperation(post, "/hosts/{id}/actions", policy.InfraChange, ok, "act-on-host", "Clear a host's identity conflict", api.actOnHost),
		newOperation(get, "/hosts/{id}/discovered-vms", policy.InfraSee, ok, "list-discovered-vms", "List the VMs of a host that Quantix did not create", api.discoveredVMs),

		newOperation(get, "/pools", policy.StorageSee, ok, "list-pools", "List storage pools", listOperation(api.Control.ListPoolsInFull)),
		newOperation(post, "/pools", policy.InfraChange, created, "create-pool", "Create a storage pool on some hosts", api.createPool),
		newOperation(get, "/pools/{id}", policy.StorageSee, ok, "get-pool", "Get a storage pool with its health and its first 50 hosts, those that need attention first", api.getPool),
		newOperation(remove, "/pools/{id}", policy.InfraChange, accepted, "delete-pool", "Delete a storage pool; its data stays", deleteObject(api, fleet.TypePool)),
		newOperation(get, "/pools/{id}/volumes", policy.StorageSee, ok, "list-pool-volumes", "List the volumes of a pool", api.poolVolumes),
		newOperation(post, "/pools/{id}/volumes", policy.InfraChange, accepted, "create-volume", "Create a volume in a pool", api.createVolume),
		newOperation(post, "/pools/{id}/downloads", policy.InfraChange, accepted, "download-volume", "Download a file from a URL into a pool, by one of its hosts", api.fetchVolume),
		newOperation(post, "/pools/{id}/volumes/{volume}/grow", policy.InfraChange, accepted, "grow-volume", "Enlarge a volume that no VM uses", api.growVolume),
		newOperation(post, "/pools/{id}/volumes/{volume}/clone", policy.InfraChange, accepted, "clone-volume", "Copy a volume within its pool while no running VM uses it", api.cloneVolume),
		newOperation(post, "/pools/{id}/volumes/{volume}/convert", policy.InfraChange, accepted, "convert-volume", "Convert a disk file (VMDK, VHDX, VHD or VDI) to a new qcow2 volume in the same pool", api.convertVolume),
		newOperation(post, "/pools/{id}/volumes/{volume}/rename", policy.InfraChange, accepted, "rename-volume", "Rename an unused volume; never overwrites another volume", api.renameVolume),
		newOperation(post, "/pools/{id}/volumes/{volume}/wipe", policy.InfraChange, accepted, "wipe-volume", "Overwrite an unused volume with zeros", api.wipeVolume),
		newOperation(remove, "/pools/{id}/volumes/{volume}", policy.InfraChange, accepted, "delete-volume", "Delete an unused volume", api.deleteVolume),
		newOperation(put, "/pools/{id}/images/{volume}", policy.InfraChange, noContent, "publish-image", "Publish a volume to tenants, who may then clone it or insert it into a drive", api.publishImage),
		newOperation(remove, "/pools/{id}/images/{volume}", policy.InfraChange, noContent, "withdraw-image", "Withdraw a published volume from tenants; VMs that use the volume keep it", api.withdrawImage),
		newOperation(post, "/pools/{id}/credentials", policy.InfraChange, accepted, "change-pool-credentials", "Change the secret by which hosts authenticate to a pool's storage; one task for each host, 200 at most", api.changeCredentials),
		newOperation(get, "/pools/{id}/vms", policy.VMSee, ok, "list-pool-vms", "List the VMs that have disks in a pool", api.poolVMs),
		newOperation(get, "/pools/{id}/hosts", policy.InfraSee, ok, "list-pool-hosts", "List a pool's status on each host, those that need attention first", api.poolHosts),
		newOperation(put, "/pools/{id}/hosts/{host}", policy.InfraChange, accepted, "assign-pool", "Assign a pool to a host", assignToHost(api, fleet.TypePool)),
		newOperation(remove, "/pools/{id}/hosts/{host}", policy.InfraChange, accepted, "release-pool", "Release a pool from a host; its data stays", hostTask(api, fleet.TypePool, api.Control.Release)),
		newOperation(post, "/pools/{id}/hosts/{host}/retry", policy.InfraChange, accepted, "retry-pool", "Retry a pool's setup on a host", hostTask(api, fleet.TypePool, api.Control.Retry)),
		newOperation(post, "/pools/{id}/retry", policy.InfraChange, accepted, "retry-pool-everywhere", "Retry a pool's setup on all hosts where it failed, 200 at most; one task for each host", retryOnAllFailedHosts(api, fleet.TypePool)),
		newOperation(get, "/pools/{id}/selector", policy.InfraSee, ok, "get-pool-selector", "Get the label selector of hosts that get a pool automatically, and the hosts whose assignment differs from it", getLabelSelector(api, fleet.TypePool)),
		newOperation(put, "/pools/{id}/selector", policy.InfraChange, ok, "set-pool-selector", "Set the label selector of hosts that get a pool automatically; matching hosts get the pool at once", setLabelSelector(api, fleet.TypePool)),

		newOperation(get, "/images", policy.StorageSee, ok, "list-images", "List the images of the library", listOperation(api.Control.ListImages)),
		newOperation(post, "/images", policy.InfraChange, created, "add-image", "Add an image: a file of a pool, a download, or a VM's disk", api.addImage),
		newOperation(get, "/image-catalog", policy.InfraSee, ok, "list-image-catalog-entrys", "List the image catalog, with the images downloaded from each entry and the last result", api.listCatalog),
		newOperation(post, "/image-catalog", policy.InfraChange, created, "add-image-catalog-entry", "Add an entry to the image catalog", api.addCatalogEntry),
		newOperation(get, "/image-catalog/{id}", policy.InfraSee, ok, "get-image-catalog-entry", "Get an entry of the image catalog", api.getCatalogEntry),
		newOperation(patch, "/image-catalog/{id}", policy.InfraChange, ok, "update-image-catalog-entry", "Change or replace an entry of the image catalog; images downloaded from it stay", api.editCatalogEntry),
		newOperation(remove, "/image-catalog/{id}", policy.InfraChange, noContent, "remove-image-catalog-entry", "Remove an entry from the image catalog; images downloaded from it stay", onObject(api.Control.RemoveStartImage)),
		newOperation(post, "/image-catalog/restore", policy.InfraChange, noContent, "restore-image-catalog-entrys", "Restore the original entries of the image catalog; added entries stay", api.restoreCatalog),
		newOperation(post, "/image-catalog/{id}/pull", policy.InfraChange, accepted, "pull-image-catalog-entry", "Download an entry of the image catalog into a pool, as a new image of the library or a new version", api.pullCatalogEntry),
		newOperation(get, "/templates", policy.StorageSee, ok, "list-templates", "List templates, with their versions and the VMs created from them", listOperation(api.Control.ListTemplates)),
		newOperation(post, "/templates", policy.VMChange, created, "add-template", "Create a template from a VM, for the VM's project", api.addTemplate),
		newOperation(get, "/templates/{id}", policy.StorageSee, ok, "get-template", "Get a template with its versions", api.getTemplate),
		newOperation(patch, "/templates/{id}", policy.VMChange, ok, "update-template", "Change a template's name, description or guest OS", api.editTemplate),
		newOperation(remove, "/templates/{id}", policy.VMChange, accepted, "delete-template", "Delete a template with its images and their files; refused while linked clones are backed by them", api.deleteTemplate),
		newOperation(post, "/templates/{id}/versions", policy.VMChange, accepted, "add-template-version", "Add a version to a template; it becomes the newest", api.addTemplateVersion),
		newOperation(post, "/templates/{id}/versions/{version}/deprecate", policy.VMChange, noContent, "deprecate-template-version", "Deprecate a version, so that no VM can be created from it, or undo that; existing VMs stay", api.deprecateVersion),
		newOperation(remove, "/templates/{id}/versions/{version}", policy.VMChange, accepted, "delete-template-version", "Delete a version with its images and their files; refused while linked clones are backed by them", api.deleteTemplateVersion),
		newOperation(put, "/templates/{id}/grants/{project}", policy.InfraChange, noContent, "grant-template", "Publish a template with its images to a project, or to \"all\"", api.grantTemplate),
		newOperation(remove, "/templates/{id}/grants/{project}", policy.InfraChange, noContent, "revoke-template", "Withdraw a template from a project, or from \"all\"; VMs created from it stay", api.revokeTemplate),
		newOperation(get, "/images/{id}", policy.StorageSee, ok, "get-image", "Get an image with its versions and their copies", api.getImage),
		newOperation(patch, "/images/{id}", policy.InfraChange, ok, "update-image", "Change an image's name, description or guest OS", api.editImage),
		newOperation(remove, "/images/{id}", policy.VMChange, accepted, "delete-image", "Delete an image, with or without the files of its copies; refused while disks are backed by a copy", api.deleteImage),
		newOperation(post, "/images/{id}/versions", policy.InfraChange, accepted, "add-image-version", "Add a version to an image; it becomes the newest", api.addImageVersion),
		newOperation(post, "/images/{id}/copies", policy.InfraChange, accepted, "copy-image", "Copy a version to a pool; no task if the pool already holds a file with the same content", api.copyImage),
		newOperation(post, "/images/{id}/copies/{pool}/{volume}/verify", policy.InfraChange, accepted, "verify-image-copy", "Verify the checksum of a copy on a host", api.verifyImageCopy),
		newOperation(post, "/images/{id}/copies/{pool}/{volume}/forget", policy.InfraChange, noContent, "forget-image-copy", "Remove a copy from the library; its file stays", api.forgetImageCopy),
		newOperation(remove, "/images/{id}/copies/{pool}/{volume}", policy.InfraChange, accepted, "delete-image-copy", "Delete the file of a copy", api.deleteImageCopy),
		newOperation(put, "/images/{id}/grants/{project}", policy.InfraChange, noContent, "grant-image", "Publish an image to a project, or to \"all\"", api.grantImage),
		newOperation(remove, "/images/{id}/grants/{project}", policy.InfraChange, noContent, "revoke-image", "Withdraw an image from a project, or from \"all\"; VMs created from it stay", api.revokeImage),

		newOperation(get, "/networks", policy.StorageSee, ok, "list-networks", "List networks", listOperation(api.Control.ListNetworksInFull)),
		newOperation(post, "/networks", policy.InfraChange, created, "create-network", "Define a libvirt network on some hosts", api.createNetwork),
		newOperation(get, "/networks/{id}", policy.StorageSee, ok, "get-network", "Get a network with its first 50 hosts, those that need attention first", api.getNetwork),
		newOperation(get, "/networks/{id}/hosts", policy.InfraSee, ok, "list-network-hosts", "List a network's status on each host, those that need attention first", api.networkHosts),
		newOperation(remove, "/networks/{id}", policy.InfraChange, accepted, "delete-network", "Delete a network that Quantix defined; refused while VMs have NICs on it", deleteObject(api, fleet.TypeNetwork)),
		newOperation(put, "/networks/{id}/hosts/{host}", policy.InfraChange, accepted, "assign-network", "Assign a network to a host", assignToHost(api, fleet.TypeNetwork)),
		newOperation(remove, "/networks/{id}/hosts/{host}", policy.InfraChange, accepted, "release-network", "Release a network from a host", hostTask(api, fleet.TypeNetwork, api.Control.Release)),
		newOperation(post, "/networks/{id}/hosts/{host}/retry", policy.InfraChange, accepted, "retry-network", "Retry a network's setup on a host", hostTask(api, fleet.TypeNetwork, api.Control.Retry)),
		newOperation(post, "/networks/{id}/retry", policy.InfraChange, accepted, "retry-network-everywhere", "Retry a network's setup on all hosts where it failed, 200 at most; one task for each host", retryOnAllFailedHosts(api, fleet.TypeNetwork)),
		newOperation(get, "/networks/{id}/selector", policy.InfraSee, ok, "get-network-selector", "Get the label selector of hosts that get a network automatically, and the hosts whose assignment differs from it", getLabelSelector(api, fleet.TypeNetwork)),
		newOperation(put, "/networks/{id}/selector", policy.InfraChange, ok, "set-network-selector", "Set the label selector of hosts that get a network automatically; matching hosts get the network at once", setLabelSelector(api, fleet.TypeNetwork)),
		newOperation(get, "/networks/{id}/addresses", policy.InfraSee, ok, "get-network-addresses", "Get the addresses of a network that Quantix defined: those in use, reserved and in conflict", api.networkAddresses),
		newOperation(put, "/networks/{id}/reservations/{mac}", policy.InfraChange, accepted, "reserve-address", "Reserve an IPv4 address for a NIC, by its MAC address, on all hosts of the network; one task for each host", api.reserveAddress),
		newOperation(remove, "/networks/{id}/reservations/{mac}", policy.InfraChange, accepted, "free-address", "Remove the address reservation of a NIC", api.freeAddress),
		newOperation(get, "/vms/{id}/addresses", policy.VMSee, ok, "get-vm-addresses", "Get the known addresses of a VM's NICs, with their sources and reservations", api.vmAddresses),
		newOperation(get, "/networks/{id}/port-groups", policy.StorageSee, ok, "list-port-groups", "List a network's port groups that you may see", api.listPortGroups),
		newOperation(put, "/networks/{id}/port-groups/{group}", policy.InfraChange, accepted, "set-port-group", "Create or change a port group of a network that Quantix defined, on all its hosts and for its NICs; one task for each host", api.setPortGroup),
		newOperation(remove, "/networks/{id}/port-groups/{group}", policy.InfraChange, accepted, "drop-port-group", "Delete a port group; refused while VMs have NICs on it", api.deletePortGroup),
		newOperation(put, "/networks/{id}/port-groups/{group}/grants/{project}", policy.InfraChange, noContent, "grant-port-group", "Grant a project, or \"all\", access to a port group", api.grantPortGroup),
		newOperation(remove, "/networks/{id}/port-groups/{group}/grants/{project}", policy.InfraChange, noContent, "revoke-port-group", "Revoke a project's access to a port group, or that of \"all\"; VMs on it stay", api.revokePortGroup),
		newOperation(put, "/networks/{id}/grants/{project}", policy.InfraChange, noContent, "grant-network", "Grant a project, or \"all\", access to a network that leads outside its hosts", api.grantNetwork),
		newOperation(remove, "/networks/{id}/grants/{project}", policy.InfraChange, noContent, "revoke-network", "Revoke a project's access to a network, or that of \"all\"; VMs on it stay", api.revokeNetwork),

		newOperation(get, "/security-groups", policy.VMSee, ok, "list-security-groups", "List the fleet-wide security groups and those of your projects", listOperation(api.Control.ListSecurityGroups)),
		newOperation(post, "/security-groups", policy.VMChange, created, "create-security-group", "Create a security group in a project, or a fleet-wide one", createObjectAt(fleet.TypeSecurityGroup, api.Control.CreateSecurityGroup)),
		newOperation(get, "/security-groups/test", policy.VMSee, ok, "would-pass", "Predict whether a connection would pass the filters of the NICs at both ends, and by which rules", api.testTraffic),
		newOperation(get, "/security-groups/{id}", policy.VMSee, ok, "get-security-group", "Get a security group with its NICs and hosts", getObject(api.Control.GetSecurityGroup)),
		newOperation(patch, "/security-groups/{id}", policy.VMChange, ok, "update-security-group", "Change a security group by a JSON merge patch; hosts apply new rules at once", api.updateSecurityGroup),
		newOperation(remove, "/security-groups/{id}", policy.VMChange, noContent, "delete-security-group", "Delete a security group without NICs; refused while rules of other groups name it", onObject(api.Control.DeleteSecurityGroup)),
		newOperation(post, "/security-groups/{id}/retry", policy.VMChange, noContent, "retry-security-group", "Retry a security group on the hosts that failed to apply it", onObject(api.Control.RetrySecurityGroup)),
		newOperation(get, "/vms/{id}/filters", policy.VMSee, ok, "list-vm-filters", "List the filters of a VM's NICs, and whether the host has applied them", api.nicFilters),

		newOperation(get, "/projects", policy.VMSee, ok, "list-projects", "List projects", listOperation(api.Control.ListProjects)),
		newOperation(post, "/projects", policy.Manage, created, "create-project", "Create a project", api.createProject),
		newOperation(get, "/projects/{id}", policy.VMSee, ok, "get-project", "Get a project", api.getProject),
		newOperation(patch, "/projects/{id}", policy.Manage, ok, "update-project", "Change a project by a JSON merge patch", api.updateProject),
		newOperation(remove, "/projects/{id}", policy.Manage, noContent, "delete-project", "Delete an empty project", onObject(api.Control.DeleteProject)),
		newOperation(get, "/projects/{id}/members", policy.VMSee, ok, "list-members", "List a project's members", api.listMembers),
		newOperation(put, "/projects/{id}/members/{user}", policy.Manage, noContent, "set-member", "Give a user a role in a project", api.setMember),
		newOperation(remove, "/projects/{id}/members/{user}", policy.Manage, noContent, "remove-member", "Remove a user from a project", api.removeMember),

		newOperation(get, "/users", policy.Manage, ok, "list-users", "List users", listOperation(api.Control.ListUsers)),
		newOperation(post, "/users", policy.Manage, created, "create-user", "Create a user with a one-time password", api.createUser),
		newOperation(get, "/users/{id}", policy.OwnAccount, ok, "get-user", "Get a user; \"me\" is the user of the token", api.getUser),
		newOperation(patch, "/users/{id}", policy.Manage, ok, "update-user", "Change a user by a JSON merge patch", api.updateUser),
		newOperation(remove, "/users/{id}", policy.Manage, noContent, "delete-user", "Delete a user", onObject(api.Control.DeleteUser)),
		newOperation(put, "/users/{id}/password", policy.Manage, noContent, "set-password", "Give a user a one-time password; ends their sessions and deletes their API tokens", api.setPassword),

		newOperation(get, "/uploads", policy.InfraChange, ok, "list-uploads", "List your own unfinished uploads; create and continue uploads by tus 1.0 at /pools/{id}/uploads", api.listUploads),
		newOperation(get, "/uploads/{id}", policy.InfraChange, ok, "get-upload", "Get an upload of your own", getObject(api.Control.GetUpload)),

		newOperation(get, "/tasks", policy.TasksSee, ok, "list-tasks", "List tasks, newest first", listOperation(api.Control.ListTasks)),
		newOperation(get, "/tasks/{id}", policy.TasksSee, ok, "get-task", "Get a task", api.getTask),
		newOperation(get, "/tasks/{id}/guest-run", policy.TasksSee, ok, "get-guest-run", "Get the program that a task ran in a guest, with its exit status and output", api.guestRun),
		newOperation(post, "/tasks/{id}/cancel", policy.TasksSee, ok, "cancel-task", "Cancel a queued task, or the children of a task that have not started", api.cancelTask),

		newOperation(get, "/tokens", policy.OwnAccount, ok, "list-tokens", "List your own API tokens", listOperation(api.Control.ListTokens)),
		newOperation(post, "/tokens", policy.OwnAccount, created, "create-token", "Create an API token; only this response shows its secret", api.createToken),
		newOperation(remove, "/tokens/{id}", policy.OwnAccount, noContent, "delete-token", "Delete an API token of your own", onObject(api.Control.DeleteToken)),

		newOperation(get, "/join-tokens", policy.Manage, ok, "list-join-tokens", "List join tokens", listOperation(api.Control.ListJoinTokens)),
		newOperation(post, "/join-tokens", policy.Manage, created, "create-join-token", "Create a join token; only this response shows its secret", api.createJoinToken),
		newOperation(remove, "/join-tokens/{id}", policy.Manage, noContent, "revoke-join-token", "Revoke a join token", onObject(api.Control.RevokeJoinToken)),
	}
}
