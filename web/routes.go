package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
	hostview "quantix/views/host"
	imageview "quantix/views/image"
	networkview "quantix/views/network"
	poolview "quantix/views/pool"
	templateview "quantix/views/template"
)

// handler answers requests for one route. a is the actor, who has the route's permission (in at least one project, if
// the permission is per project).
type handler func(c echo.Context, a fleet.Actor) error

// routeKind determines the middleware's checks and limits of a route.
type routeKind int

const (
	page            routeKind = iota // HTML and forms: session, 64 KiB, answered within 5 s
	stream                           // SSE and websockets: session, without a deadline
	api                              // JSON: bearer token, 1 MiB
	socket                           // websockets for API clients: bearer token, without a deadline
	unauthenticated                  // neither session nor token: health, static files

	// Uploads and downloads, without limits of size and time. sessionTransfer requires the user's session,
	// tokenTransfer a bearer token.
	sessionTransfer
	tokenTransfer

	// Agent routes, on a separate listener. Each kind requires a different proof of the host's identity. All except
	// joining also require that the host exists and uses the key of its latest join.
	joinTokenProof          // a join token instead of a certificate
	expiredCertificateProof // the host's certificate, which may have expired: for its renewal
	certificateProof        // the host's certificate; the call opens a session of the agent
	sessionProof            // the certificate and the agent's session, checked before the body is read
	transactionProof        // as sessionProof, but control checks the session in the call's own transaction, which saves a query
)

func (k routeKind) isAgentRoute() bool { return k >= joinTokenProof }

// isLongLived reports whether routes of this kind have no deadline.
func (k routeKind) isLongLived() bool {
	return k == stream || k == socket || k == sessionTransfer || k == tokenTransfer
}

// requiresToken reports whether routes of this kind require a bearer token.
func (k routeKind) requiresToken() bool { return k == api || k == socket || k == tokenTransfer }

// noPermission marks a route without a required permission. control still checks the actor's permissions.
const noPermission policy.Permission = ""

// route is one row of the table of routes. handle is nil for the routes that huma's router handles, and for the claim
// (see addForAgents).
type route struct {
	method, path string
	kind         routeKind
	right        policy.Permission
	handle       handler
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// routes lists all routes for browsers, API clients and agents. TestEveryRouteIsInTheTable and
// TestEveryAgentRouteRequiresProof verify that no other route exists.
func (s *Server) routes() []route {
	pages := []route{
		{get, "/healthz", unauthenticated, noPermission, s.livenessProbe},
		{get, "/readyz", unauthenticated, noPermission, s.readinessProbe},
		// showMetrics requires a client on this machine, or a token with permission to see hosts
		{get, "/metrics", unauthenticated, noPermission, s.showMetrics},
		{get, "/static/*", unauthenticated, noPermission, s.serveAsset},

		{get, "/help", page, noPermission, s.helpPage},
		{get, "/help/:chapter", page, noPermission, s.helpPage},

		// Sign-in and the user's own account.
		{get, "/sign-in", page, noPermission, s.signInPage},
		{post, "/sign-in", page, noPermission, s.signIn},
		{post, "/sign-out", page, noPermission, s.signOut},
		{get, "/account/password", page, policy.OwnAccount, showForm(s.passwordPage)},
		{post, "/account/password", page, policy.OwnAccount, submit(s.changePassword, s.passwordPage)},
		{get, "/account", page, policy.OwnAccount, s.accountPage},
		{get, "/account/tokens", page, policy.OwnAccount, showForm(s.tokensPage)},
		{post, "/account/tokens", page, policy.OwnAccount, submit(s.createToken, s.tokensPage)},
		{get, "/account/tokens/:id/delete", page, policy.OwnAccount, showForm(s.confirmDeleteToken())},
		{post, "/account/tokens/:id/delete", page, policy.OwnAccount, submit(s.deleteToken, s.confirmDeleteToken())},

		// The start page, and the parts of the page layout: event stream, search, tree and the like.
		{get, "/", page, policy.VMSee, s.coalesce(s.dashboardPage)},
		{get, "/events", stream, policy.OwnAccount, s.eventStream},
		{get, "/search", page, policy.VMSee, s.searchPage},
		{get, "/search/suggest", page, policy.VMSee, s.suggestResults},
		{get, "/complete", page, policy.VMSee, s.completeFilter},
		{get, "/choices/:noun", page, policy.VMSee, s.choicesPage},
		{get, "/tree/:view", page, policy.VMSee, s.showTreeRoot},
		{get, "/tree/:view/:node", page, policy.VMSee, s.showTreeLevel},

		// Saved views of lists.
		{get, "/views/:list", page, policy.OwnAccount, showForm(s.viewsPage)},
		{post, "/views/:list", page, policy.OwnAccount, submit(s.saveView, s.viewsPage)},
		{post, "/views/:list/:id/delete", page, policy.OwnAccount, submitButton(s.deleteView)},

		// VMs.
		{get, "/vms", page, policy.VMSee, s.coalesce(s.listVMs)},
		{get, "/vms.csv", stream, policy.VMSee, s.exportVMs},
		{post, "/vms/bulk", page, policy.VMUse, submit(s.startBulkAction, s.showBulkActionDialog)},
		{get, "/vms/bulk/:id", page, policy.VMUse, s.redirectBulkPage},
		{get, "/vms/new", page, policy.VMChange, showForm(s.showNewVMForm)},
		{post, "/vms", page, policy.VMChange, submit(s.createVM, s.showNewVMForm)},
		{post, "/vms/new/summary", page, policy.VMChange, submitButton(s.summarize)},
		{post, "/vms/plan", page, policy.VMChange, submit(s.planNew, s.showNewVMForm)},
		{post, "/vms/:id/plan", page, policy.VMChange, submit(s.planEdit, s.showEditForm)},
		{get, "/plans/:id", page, policy.VMChange, showForm(s.planPage)},
		{post, "/plans/:id", page, policy.VMChange, submit(s.executePlan, s.planPage)},
		{get, "/vms/edit", page, policy.VMChange, showForm(s.showBulkEditForm)},
		{post, "/vms/edit", page, policy.VMChange, submit(s.submitBulkEdit, s.showBulkEditForm)},
		{get, "/vms/import", page, policy.InfraChange, s.importPage},
		{get, "/vms/:id/export", page, policy.VMChange, showForm(s.showExportForm)},
		{post, "/vms/:id/export", page, policy.VMChange, submit(s.exportVM, s.showExportForm)},
		{get, "/exports/:id/content", stream, policy.VMChange, s.sendExport},
		{post, "/exports/:id/delete", page, policy.VMChange, submitButton(s.deleteExport)},
		{get, "/vms/compare", page, policy.VMSee, s.comparePage},
		{get, "/vms/:id", page, policy.VMSee, s.vmPage},
		{get, "/vms/:id/delete", page, policy.VMChange, showForm(s.confirmDeleteVM)},
		{post, "/vms/:id/delete", page, policy.VMChange, submit(s.deleteVM, s.confirmDeleteVM)},
		{post, "/vms/:id/edit", page, policy.VMChange, submit(s.editVM, s.showEditForm)},
		{post, "/vms/:id/actions", page, policy.VMUse, submitButton(s.startVMAction)},
		{post, "/vms/:id/guest", page, policy.VMUse, submitButton(s.startGuestAction)},
		{get, "/vms/:id/guest/freeze", page, policy.VMUse, showForm(s.showFreezeForm)},
		{post, "/vms/:id/guest/freeze", page, policy.VMUse, submit(s.freezeGuest, s.showFreezeForm)},
		{get, "/vms/:id/guest/guestpassword", page, policy.VMChange, showForm(s.showGuestPasswordForm)},
		{post, "/vms/:id/guest/guestpassword", page, policy.VMChange, submit(s.setGuestPassword, s.showGuestPasswordForm)},
		{get, "/vms/:id/guest/exec", page, policy.VMChange, showForm(s.showExecForm)},
		{post, "/vms/:id/guest/exec", page, policy.VMChange, submit(s.runProgram, s.showExecForm)},
		{get, "/vms/:id/protection", page, policy.VMChange, showForm(s.showProtectionForm)},
		{post, "/vms/:id/protection", page, policy.VMChange, submit(s.protectVM, s.showProtectionForm)},
		{get, "/vms/:id/disks/detach", page, policy.VMChange, showForm(s.confirmDetachDisk)},
		{post, "/vms/:id/disks/detach", page, policy.VMChange, submit(s.detachDisk, s.confirmDetachDisk)},
		{get, "/vms/:id/disks/replace", page, policy.VMChange, showForm(s.showReplaceDiskForm)},
		{post, "/vms/:id/disks/replace", page, policy.VMChange, submit(s.replaceDisk, s.showReplaceDiskForm)},
		{get, "/vms/:id/disks/image", page, policy.VMChange, showForm(s.showDiskImageForm)},
		{post, "/vms/:id/disks/image", page, policy.VMChange, submit(s.createDiskImage, s.showDiskImageForm)},
		{get, "/vms/:id/template", page, policy.VMChange, showForm(s.showTemplateForm)},
		{post, "/vms/:id/template", page, policy.VMChange, submit(s.createTemplate, s.showTemplateForm)},
		{get, "/vms/:id/migrate", page, policy.InfraChange, showForm(s.showMigrateForm)},
		{post, "/vms/:id/migrate", page, policy.InfraChange, submit(s.migrateVM, s.showMigrateForm)},
		{get, "/vms/:id/disks/grow", page, policy.VMChange, showForm(s.showGrowDiskForm)},
		{post, "/vms/:id/disks/grow", page, policy.VMChange, submit(s.growDisk, s.showGrowDiskForm)},
		{get, "/vms/:id/disks/move", page, policy.InfraChange, showForm(s.showMoveDiskForm)},
		{post, "/vms/:id/disks/move", page, policy.InfraChange, submit(s.moveDisk, s.showMoveDiskForm)},
		{get, "/vms/:id/snapshots/take", page, policy.VMChange, showForm(s.showTakeSnapshotForm)},
		{post, "/vms/:id/snapshots/take", page, policy.VMChange, submit(s.takeSnapshot, s.showTakeSnapshotForm)},
		{post, "/vms/:id/snapshots/consolidate", page, policy.VMChange, submitButton(s.consolidateVM)},
		{get, "/vms/:id/schedules/new", page, policy.VMChange, showForm(s.showScheduleForm)},
		{post, "/vms/:id/schedules/new", page, policy.VMChange, submit(s.saveSchedule, s.showScheduleForm)},
		{get, "/vms/:id/schedules/:schedule", page, policy.VMChange, showForm(s.showScheduleForm)},
		{post, "/vms/:id/schedules/:schedule", page, policy.VMChange, submit(s.saveSchedule, s.showScheduleForm)},
		{post, "/vms/:id/schedules/:schedule/enable", page, policy.VMChange, submitButton(s.enableSchedule)},
		{post, "/vms/:id/schedules/:schedule/disable", page, policy.VMChange, submitButton(s.disableSchedule)},
		{get, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, showForm(s.confirmDeleteSchedule)},
		{post, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, submit(s.deleteSchedule, s.confirmDeleteSchedule)},
		{get, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, showForm(s.confirmRevertSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, submit(s.revertSnapshot, s.confirmRevertSnapshot)},
		{get, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, showForm(s.confirmDeleteSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, submit(s.deleteSnapshot, s.confirmDeleteSnapshot)},
		{get, "/vms/:id/first-boot", page, policy.VMChange, showForm(s.showFirstBootForm)},
		{post, "/vms/:id/first-boot", page, policy.VMChange, submit(s.setFirstBoot, s.showFirstBootForm)},
		{post, "/vms/:id/accept-drift", page, policy.VMChange, submitButton(s.acceptDrift)},
		{post, "/vms/:id/reapply", page, policy.VMChange, submitButton(s.reapplyVM)},
		{post, "/vms/:id/place/:host", page, policy.InfraChange, submitButton(s.placeVM)},
		{get, "/vms/:id/console", page, policy.VMUse, s.consolePage},
		{post, "/vms/:id/console/ticket", page, policy.VMUse, s.createConsoleTicket},
		{get, "/console/:id", stream, policy.VMUse, s.consoleSocket},
		{get, "/menus/vm/:id", page, policy.VMSee, s.vmMenu},
		{get, "/hosts/:host/found/:id", page, policy.InfraSee, s.discoveredVMPage},

		// Customization specs.
		{get, "/customizations", page, policy.VMSee, s.listCustomizations},
		{get, "/customizations/new", page, policy.VMChange, showForm(s.showNewCustomizationForm)},
		{post, "/customizations", page, policy.VMChange, submit(s.createCustomization, s.showNewCustomizationForm)},
		{get, "/customizations/:id", page, policy.VMSee, showForm(s.showCustomization)},
		{post, "/customizations/:id", page, policy.VMChange, submit(s.editCustomization, s.showCustomization)},
		{get, "/customizations/:id/delete", page, policy.VMChange, showForm(s.confirmDeleteCustomization())},
		{post, "/customizations/:id/delete", page, policy.VMChange, submit(s.deleteCustomization, s.confirmDeleteCustomization())},

		// Hosts.
		{get, "/hosts", page, policy.InfraSee, s.coalesce(s.listHosts)},
		{get, "/hosts.csv", stream, policy.InfraSee, s.exportHosts},
		{get, "/hosts/join", page, policy.Manage, s.joinPage},
		{post, "/hosts/join", page, policy.Manage, submitButton(s.createJoinToken)},
		{post, "/hosts/join/:id/revoke", page, policy.Manage, submitButton(s.revokeJoinToken)},
		{get, "/hosts/labelled", page, policy.InfraSee, s.showLabelledHosts},
		{get, "/hosts/:id", page, policy.InfraSee, s.hostPage},
		{post, "/hosts/:id/edit", page, policy.InfraChange, submit(s.editHost, s.showHostForm)},
		{post, "/hosts/:id/conflict", page, policy.InfraChange, submitButton(s.clearConflict)},
		{get, "/hosts/:id/delete", page, policy.InfraChange, showForm(s.confirmDeleteHost())},
		{post, "/hosts/:id/delete", page, policy.InfraChange, submit(s.deleteHost, s.confirmDeleteHost())},
		{get, "/menus/host/:id", page, policy.InfraSee, menu(s, s.Control.GetHost, hostFrame, hostview.Acts)},

		// Pools.
		{get, "/pools", page, policy.StorageSee, s.coalesce(s.listPools)},
		{get, "/pools/matrix", page, policy.InfraSee, s.coalesce(s.poolGrid)},
		{get, "/pools.csv", stream, policy.StorageSee, s.exportPools},
		{get, "/pools/new", page, policy.InfraChange, showForm(s.showPoolForm)},
		{post, "/pools", page, policy.InfraChange, submit(s.createPool, s.showPoolForm)},
		{get, "/pools/:id", page, policy.StorageSee, s.poolPage},
		{get, "/pools/:id/assign", page, policy.InfraChange, showForm(showAssignForm(s, s.poolType()))},
		{post, "/pools/:id/assign", page, policy.InfraChange, submit(submitAssign(s, s.poolType()), showAssignForm(s, s.poolType()))},
		{get, "/pools/:id/hosts/:host/release", page, policy.InfraChange, showForm(confirmRelease(s, s.poolType()))},
		{post, "/pools/:id/hosts/:host/release", page, policy.InfraChange, submit(submitRelease(s, s.poolType()), confirmRelease(s, s.poolType()))},
		{post, "/pools/:id/hosts/:host/retry", page, policy.InfraChange, submitButton(submitRetry(s, s.poolType()))},
		{post, "/pools/:id/retry", page, policy.InfraChange, submitButton(submitRetryEverywhere(s, s.poolType()))},
		{get, "/pools/:id/labels", page, policy.InfraChange, showForm(showLabelForm(s, s.poolType()))},
		{post, "/pools/:id/labels", page, policy.InfraChange, submit(submitLabelForm(s, s.poolType()), showLabelForm(s, s.poolType()))},
		{post, "/pools/:id/publish", page, policy.InfraChange, submitButton(s.publishImage)},
		{post, "/pools/:id/withdraw", page, policy.InfraChange, submitButton(s.withdrawImage)},
		{get, "/pools/:id/volumes/new", page, policy.InfraChange, showForm(s.showNewVolumeForm)},
		{post, "/pools/:id/volumes/new", page, policy.InfraChange, submit(s.createVolume, s.showNewVolumeForm)},
		{get, "/pools/:id/volumes/fetch", page, policy.InfraChange, showForm(s.showDownloadVolumeForm)},
		{post, "/pools/:id/volumes/fetch", page, policy.InfraChange, submit(s.downloadVolume, s.showDownloadVolumeForm)},
		{get, "/pools/:id/volumes/upload", page, policy.InfraChange, showForm(s.showUploadVolumeForm)},
		{post, "/pools/:id/volumes/upload", page, policy.InfraChange, submit(s.uploadVolume, s.showUploadVolumeForm)},
		{get, "/pools/:id/volumes/grow", page, policy.InfraChange, showForm(s.volumeDialog(poolview.GrowVolume))},
		{post, "/pools/:id/volumes/grow", page, policy.InfraChange, submit(s.growVolume, s.volumeDialog(poolview.GrowVolume))},
		{get, "/pools/:id/volumes/clone", page, policy.InfraChange, showForm(s.volumeDialog(poolview.CloneVolume))},
		{post, "/pools/:id/volumes/clone", page, policy.InfraChange, submit(s.cloneVolume, s.volumeDialog(poolview.CloneVolume))},
		{get, "/pools/:id/volumes/convert", page, policy.InfraChange, showForm(s.volumeDialog(poolview.ConvertVolume))},
		{post, "/pools/:id/volumes/convert", page, policy.InfraChange, submit(s.convertVolume, s.volumeDialog(poolview.ConvertVolume))},
		{get, "/pools/:id/volumes/content", stream, policy.InfraChange, s.sendVolumeBySession},
		{get, "/pools/:id/volumes/rename", page, policy.InfraChange, showForm(s.volumeDialog(poolview.RenameVolume))},
		{post, "/pools/:id/volumes/rename", page, policy.InfraChange, submit(s.renameVolume, s.volumeDialog(poolview.RenameVolume))},
		{get, "/pools/:id/volumes/wipe", page, policy.InfraChange, showForm(s.volumeDialog(poolview.WipeVolume))},
		{post, "/pools/:id/volumes/wipe", page, policy.InfraChange, submit(s.wipeVolume, s.volumeDialog(poolview.WipeVolume))},
		{get, "/pools/:id/volumes/delete", page, policy.InfraChange, showForm(s.volumeDialog(poolview.DeleteVolume))},
		{post, "/pools/:id/volumes/delete", page, policy.InfraChange, submit(s.deleteVolume, s.volumeDialog(poolview.DeleteVolume))},
		{get, "/pools/:id/credentials", page, policy.InfraChange, showForm(s.showCredentialsForm)},
		{post, "/pools/:id/credentials", page, policy.InfraChange, submit(s.changeCredentials, s.showCredentialsForm)},
		{get, "/pools/:id/delete", page, policy.InfraChange, showForm(confirmDelete(s, s.poolType()))},
		{post, "/pools/:id/delete", page, policy.InfraChange, submit(submitDelete(s, s.poolType()), confirmDelete(s, s.poolType()))},
		{get, "/menus/pool/:id", page, policy.StorageSee, menu(s, s.Control.GetPool, poolFrame, poolview.Acts)},

		// Security groups.
		{get, "/security-groups", page, policy.VMSee, s.coalesce(s.listSecurityGroups)},
		{get, "/security-groups.csv", stream, policy.VMSee, s.exportSecurityGroups},
		{get, "/security-groups/test", page, policy.VMSee, s.trafficTestPage},
		{get, "/security-groups/new", page, policy.VMChange, showForm(s.showSecurityGroupForm)},
		{post, "/security-groups", page, policy.VMChange, submit(s.createSecurityGroup, s.showSecurityGroupForm)},
		{get, "/security-groups/:id", page, policy.VMSee, showForm(s.securityGroupPage)},
		{post, "/security-groups/:id/rules", page, policy.VMChange, submit(s.changeSecurityGroupRules, s.showSecurityGroupRules)},
		{get, "/security-groups/:id/edit", page, policy.VMChange, showForm(s.showSecurityGroupEditForm)},
		{post, "/security-groups/:id/edit", page, policy.VMChange, submit(s.editSecurityGroup, s.showSecurityGroupEditForm)},
		{post, "/security-groups/:id/retry", page, policy.VMChange, submitButton(s.retrySecurityGroup)},
		{get, "/security-groups/:id/delete", page, policy.VMChange, showForm(s.confirmDeleteSecurityGroup())},
		{post, "/security-groups/:id/delete", page, policy.VMChange, submit(s.deleteSecurityGroup, s.confirmDeleteSecurityGroup())},
		{get, "/vms/:id/filters", page, policy.VMChange, showForm(s.showNICForm)},
		{post, "/vms/:id/filters", page, policy.VMChange, submit(s.setNIC, s.showNICForm)},

		// Networks.
		{get, "/networks", page, policy.StorageSee, s.coalesce(s.listNetworks)},
		{get, "/networks.csv", stream, policy.StorageSee, s.exportNetworks},
		{get, "/networks/topology", page, policy.InfraSee, s.coalesce(s.networkGrid)},
		{get, "/networks/new", page, policy.InfraChange, showForm(s.showNetworkForm)},
		{post, "/networks", page, policy.InfraChange, submit(s.createNetwork, s.showNetworkForm)},
		{get, "/networks/:id", page, policy.StorageSee, showForm(s.networkPage)},
		{post, "/networks/:id/grants", page, policy.InfraChange, submit(s.setNetworkGrant, s.showNetworkGrants)},
		{get, "/networks/:id/reservations", page, policy.InfraChange, showForm(s.showReservationForm)},
		{post, "/networks/:id/reservations", page, policy.InfraChange, submit(s.reserveAddress, s.showReservationForm)},
		{post, "/networks/:id/reservations/:mac/free", page, policy.InfraChange, submitButton(s.freeAddress)},
		{get, "/networks/:id/port-groups", page, policy.InfraChange, showForm(s.showPortGroupForm)},
		{post, "/networks/:id/port-groups", page, policy.InfraChange, submit(s.setPortGroup, s.showPortGroupForm)},
		{post, "/networks/:id/port-groups/:group/delete", page, policy.InfraChange, submitButton(s.deletePortGroup)},
		{post, "/networks/:id/group-grants", page, policy.InfraChange, submitButton(s.setPortGroupGrant)},
		{get, "/networks/:id/assign", page, policy.InfraChange, showForm(showAssignForm(s, s.networkType()))},
		{post, "/networks/:id/assign", page, policy.InfraChange, submit(submitAssign(s, s.networkType()), showAssignForm(s, s.networkType()))},
		{get, "/networks/:id/hosts/:host/release", page, policy.InfraChange, showForm(confirmRelease(s, s.networkType()))},
		{post, "/networks/:id/hosts/:host/release", page, policy.InfraChange, submit(submitRelease(s, s.networkType()), confirmRelease(s, s.networkType()))},
		{post, "/networks/:id/hosts/:host/retry", page, policy.InfraChange, submitButton(submitRetry(s, s.networkType()))},
		{post, "/networks/:id/retry", page, policy.InfraChange, submitButton(submitRetryEverywhere(s, s.networkType()))},
		{get, "/networks/:id/labels", page, policy.InfraChange, showForm(showLabelForm(s, s.networkType()))},
		{post, "/networks/:id/labels", page, policy.InfraChange, submit(submitLabelForm(s, s.networkType()), showLabelForm(s, s.networkType()))},
		{get, "/networks/:id/delete", page, policy.InfraChange, showForm(confirmDelete(s, s.networkType()))},
		{post, "/networks/:id/delete", page, policy.InfraChange, submit(submitDelete(s, s.networkType()), confirmDelete(s, s.networkType()))},
		{get, "/menus/network/:id", page, policy.StorageSee, menu(s, s.Control.GetNetwork, networkFrame, networkview.Acts)},

		// Images.
		{get, "/images", page, policy.StorageSee, s.coalesce(s.listImages)},
		{get, "/images.csv", stream, policy.StorageSee, s.exportImages},
		{get, "/images/new", page, policy.InfraChange, showForm(s.showImageForm)},
		{post, "/images", page, policy.InfraChange, submit(s.createImage, s.showImageForm)},
		{get, "/images/well-known", page, policy.InfraSee, s.listCatalog},
		{post, "/images/well-known/pull", page, policy.InfraChange, submitButton(s.pullCatalogEntry)},
		{post, "/images/well-known/restore", page, policy.InfraChange, submitButton(s.restoreCatalog)},
		{get, "/images/well-known/new", page, policy.InfraChange, showForm(s.catalogEntryDialog(imageview.EditStart))},
		{post, "/images/well-known/new", page, policy.InfraChange, submit(s.addCatalogEntry, s.catalogEntryDialog(imageview.EditStart))},
		{get, "/images/well-known/:id/edit", page, policy.InfraChange, showForm(s.catalogEntryDialog(imageview.EditStart))},
		{post, "/images/well-known/:id/edit", page, policy.InfraChange, submit(s.editCatalogEntry, s.catalogEntryDialog(imageview.EditStart))},
		{get, "/images/well-known/:id/delete", page, policy.InfraChange, showForm(s.catalogEntryDialog(imageview.RemoveStart))},
		{post, "/images/well-known/:id/delete", page, policy.InfraChange, submit(s.removeCatalogEntry, s.catalogEntryDialog(imageview.RemoveStart))},
		{get, "/images/:id", page, policy.StorageSee, showForm(s.imagePage)},
		{post, "/images/:id/grants", page, policy.InfraChange, submit(s.setImageGrant, s.showImageGrants)},
		{get, "/images/:id/versions/new", page, policy.InfraChange, showForm(s.imageDialog(imageview.NewVersion, nil))},
		{post, "/images/:id/versions/new", page, policy.InfraChange, submit(s.addImageVersion, s.imageDialog(imageview.NewVersion, nil))},
		{get, "/images/:id/copies/new", page, policy.InfraChange, showForm(s.imageDialog(imageview.NewCopy, nil))},
		{post, "/images/:id/copies/new", page, policy.InfraChange, submit(s.copyImage, s.imageDialog(imageview.NewCopy, nil))},
		{post, "/images/:id/copies/verify", page, policy.InfraChange, submitButton(s.verifyCopy)},
		{post, "/images/:id/copies/forget", page, policy.InfraChange, submitButton(s.forgetCopy)},
		{get, "/images/:id/copies/delete", page, policy.InfraChange, showForm(s.imageDialog(imageview.DeleteCopy, fillCopy))},
		{post, "/images/:id/copies/delete", page, policy.InfraChange, submit(s.deleteCopy, s.imageDialog(imageview.DeleteCopy, fillCopy))},
		{get, "/images/:id/edit", page, policy.InfraChange, showForm(s.imageDialog(imageview.Edit, nil))},
		{post, "/images/:id/edit", page, policy.InfraChange, submit(s.editImage, s.imageDialog(imageview.Edit, nil))},
		{get, "/images/:id/delete", page, policy.VMChange, showForm(s.imageDialog(imageview.Delete, nil))},
		{post, "/images/:id/delete", page, policy.VMChange, submit(s.deleteImage, s.imageDialog(imageview.Delete, nil))},
		{get, "/templates", page, policy.StorageSee, s.coalesce(s.listTemplates)},
		{get, "/templates.csv", stream, policy.StorageSee, s.exportTemplates},
		{get, "/templates/:id", page, policy.StorageSee, showForm(s.templatePage)},
		{post, "/templates/:id/grants", page, policy.InfraChange, submit(s.setTemplateGrant, s.showTemplateGrants)},
		{post, "/templates/:id/deprecate", page, policy.VMChange, submitButton(s.deprecateVersion)},
		{get, "/templates/:id/versions/delete", page, policy.VMChange, showForm(s.confirmDeleteTemplateVersion)},
		{post, "/templates/:id/versions/delete", page, policy.VMChange, submit(s.deleteTemplateVersion, s.confirmDeleteTemplateVersion)},
		{get, "/templates/:id/edit", page, policy.VMChange, showForm(s.templateDialog(templateview.Edit))},
		{post, "/templates/:id/edit", page, policy.VMChange, submit(s.editTemplate, s.templateDialog(templateview.Edit))},
		{get, "/templates/:id/delete", page, policy.VMChange, showForm(s.templateDialog(templateview.Delete))},
		{post, "/templates/:id/delete", page, policy.VMChange, submit(s.deleteTemplate, s.templateDialog(templateview.Delete))},
		{get, "/menus/template/:id", page, policy.StorageSee, menu(s, s.Control.GetTemplate, templateFrame, templateview.Acts)},
		{get, "/menus/image/:id", page, policy.StorageSee, menu(s, s.Control.GetImage, imageFrame, imageview.Acts)},

		// Projects and users.
		{get, "/projects", page, policy.VMSee, s.listProjects},
		{get, "/projects/switch", page, policy.VMSee, s.switchProject},
		{get, "/projects/new", page, policy.Manage, showForm(s.showProjectForm)},
		{post, "/projects", page, policy.Manage, submit(s.createProject, s.showProjectForm)},
		{get, "/projects/:id", page, policy.VMSee, showForm(s.projectPage)},
		{post, "/projects/:id/members", page, policy.Manage, submit(s.setMember, s.projectPage)},
		{get, "/projects/:id/edit", page, policy.Manage, showForm(s.showProjectForm)},
		{post, "/projects/:id/edit", page, policy.Manage, submit(s.editProject, s.showProjectForm)},
		{get, "/projects/:id/delete", page, policy.Manage, showForm(s.confirmDeleteProject())},
		{post, "/projects/:id/delete", page, policy.Manage, submit(s.deleteProject, s.confirmDeleteProject())},
		{get, "/users", page, policy.Manage, s.listUsers},
		{get, "/users/new", page, policy.Manage, showForm(s.showUserForm)},
		{post, "/users", page, policy.Manage, submit(s.createUser, s.showUserForm)},
		{get, "/users/:id", page, policy.Manage, showForm(s.userPage)},
		{post, "/users/:id", page, policy.Manage, submit(s.editUser, s.userPage)},
		{get, "/users/:id/password", page, policy.Manage, showForm(s.confirmResetPassword)},
		{post, "/users/:id/password", page, policy.Manage, submit(s.resetPassword, s.confirmResetPassword)},
		{get, "/users/:id/delete", page, policy.Manage, showForm(s.confirmDeleteUser())},
		{post, "/users/:id/delete", page, policy.Manage, submit(s.deleteUser, s.confirmDeleteUser())},

		// Tasks.
		{get, "/tasks", page, policy.TasksSee, s.listTasks},
		{get, "/tasks.csv", stream, policy.TasksSee, s.exportTasks},
		{get, "/tasks/recent", page, policy.TasksSee, s.recentTasks},
		{get, "/tasks/running", page, policy.TasksSee, s.runningTasks},
		{get, "/tasks/:id", page, policy.TasksSee, s.taskPage},
		{post, "/tasks/:id/cancel", page, policy.TasksSee, submitButton(s.cancelTask)},
	}
	agents := []route{
		{post, wire.PathJoin, joinTokenProof, noPermission, agentRequest(agentLimit, s.joinHost)},
		{post, wire.PathRenew, expiredCertificateProof, policy.ActAsAgent, agentCall(agentLimit, s.renewCertificate)},
		{post, wire.PathHello, certificateProof, policy.ActAsAgent, agentCall(agentLimit, s.Control.Hello)},
		{post, wire.PathReport, transactionProof, policy.ActAsAgent, agentCall(reportLimit, s.Control.Report)},
		{post, wire.PathClaim, transactionProof, policy.ActAsAgent, nil}, // see claimHandler
		{post, wire.PathJobs + ":id/progress", sessionProof, policy.ActAsAgent, agentRequest(agentLimit, s.reportProgress)},
		{post, wire.PathJobs + ":id/finish", transactionProof, policy.ActAsAgent, agentRequest(reportLimit, s.finishJob)},
		{post, wire.PathResults, transactionProof, policy.ActAsAgent, agentRequest(reportLimit, s.finishJobs)},
		{post, wire.PathJobs + ":id/secret", sessionProof, policy.ActAsAgent, agentRequest(agentLimit, s.sendGuestSecret)},
		{post, wire.PathPools + ":id/secret", sessionProof, policy.ActAsAgent, agentRequest(agentLimit, s.sendPoolSecret)},
		{post, wire.PathFirstBoots + ":id", sessionProof, policy.ActAsAgent, agentRequest(agentLimit, s.sendFirstBoot)},
		{post, wire.PathTransfers + ":id/meet", sessionProof, policy.ActAsAgent, agentRequest(agentLimit, s.exchangeTransferAddresses)},
		{get, wire.PathRelay + ":id", transactionProof, policy.ActAsAgent, s.joinRelay},
		{get, wire.PathConsole + ":id", transactionProof, policy.ActAsAgent, s.joinRelay}, // older agents
	}
	return slices.Concat(pages, s.uploadRoutes(), s.apiRoutes(), agents)
}
