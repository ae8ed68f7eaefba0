package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	hostview "quantix/views/host"
	imageview "quantix/views/image"
	networkview "quantix/views/network"
	poolview "quantix/views/pool"
	templateview "quantix/views/template"
	"quantix/web/api"
)

// handler answers requests for one route. a is the actor, who has the route's permission (in at least one project, if
// the permission is per project).
type handler func(c echo.Context, a fleet.Actor) error

// routeKind determines the middleware's checks and limits of a route.
type routeKind int

const (
	page            routeKind = iota // HTML and forms: session, 64 KiB, answered within 5 s
	stream                           // SSE and websockets: session, without a deadline
	apiCall                          // JSON: bearer token, 1 MiB
	socket                           // websockets for API clients: bearer token, without a deadline
	unauthenticated                  // neither session nor token: health, static files

	// Uploads and downloads, without limits of size and time. sessionTransfer requires the user's session,
	// tokenTransfer a bearer token.
	sessionTransfer
	tokenTransfer

	agentCall // of agents, on a separate listener; package web/agents checks the proof of the host's identity
)

// isLongLived reports whether routes of this kind have no deadline.
func (k routeKind) isLongLived() bool {
	return k == stream || k == socket || k == sessionTransfer || k == tokenTransfer
}

// requiresToken reports whether routes of this kind require a bearer token.
func (k routeKind) requiresToken() bool { return k == apiCall || k == socket || k == tokenTransfer }

// noPermission marks a route without a required permission. control still checks the actor's permissions.
const noPermission policy.Permission = ""

// route is one row of the table of routes. handle is nil for the routes that packages web/api and web/agents register.
type route struct {
	method, path string
	kind         routeKind
	permission   policy.Permission
	handle       handler
}

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete
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
		{post, "/account/password", page, policy.OwnAccount, submitForm(s.changePassword, s.passwordPage)},
		{get, "/account", page, policy.OwnAccount, s.accountPage},
		{get, "/account/tokens", page, policy.OwnAccount, showForm(s.tokensPage)},
		{post, "/account/tokens", page, policy.OwnAccount, submitForm(s.createToken, s.tokensPage)},
		{get, "/account/tokens/:id/delete", page, policy.OwnAccount, showForm(s.confirmDeleteToken())},
		{post, "/account/tokens/:id/delete", page, policy.OwnAccount, submitForm(s.deleteToken, s.confirmDeleteToken())},

		// The start page, and the parts of the page layout: event stream, search, tree and the like.
		{get, "/", page, policy.VMSee, s.coalesceRefreshes(s.dashboardPage)},
		{get, "/events", stream, policy.OwnAccount, s.eventStream},
		{get, "/search", page, policy.VMSee, s.searchPage},
		{get, "/search/suggest", page, policy.VMSee, s.suggestResults},
		{get, "/complete", page, policy.VMSee, s.completeFilter},
		{get, "/choices/:noun", page, policy.VMSee, s.showSelectOptions},
		{get, "/tree/:view", page, policy.VMSee, s.showTreeRoot},
		{get, "/tree/:view/:node", page, policy.VMSee, s.showTreeLevel},

		// Saved views of lists.
		{get, "/views/:list", page, policy.OwnAccount, showForm(s.savedViewsPage)},
		{post, "/views/:list", page, policy.OwnAccount, submitForm(s.createSavedView, s.savedViewsPage)},
		{post, "/views/:list/:id/delete", page, policy.OwnAccount, submitWithoutForm(s.deleteSavedView)},

		// VMs.
		{get, "/vms", page, policy.VMSee, s.coalesceRefreshes(s.listVMs)},
		{get, "/vms.csv", stream, policy.VMSee, s.exportVMs},
		{post, "/vms/bulk", page, policy.VMUse, submitForm(s.startBulkAction, s.showBulkActionDialog)},
		{get, "/vms/bulk/:id", page, policy.VMUse, s.redirectOldBulkPage},
		{get, "/vms/new", page, policy.VMChange, showForm(s.showNewVMForm)},
		{post, "/vms", page, policy.VMChange, submitForm(s.createVM, s.showNewVMForm)},
		{post, "/vms/new/summary", page, policy.VMChange, submitWithoutForm(s.showNewVMSummary)},
		{post, "/vms/plan", page, policy.VMChange, submitForm(s.planNewVM, s.showNewVMForm)},
		{post, "/vms/:id/plan", page, policy.VMChange, submitForm(s.planVMEdit, s.showEditForm)},
		{get, "/plans/:id", page, policy.VMChange, showForm(s.planPage)},
		{post, "/plans/:id", page, policy.VMChange, submitForm(s.executePlan, s.planPage)},
		{get, "/vms/edit", page, policy.VMChange, showForm(s.showBulkEditForm)},
		{post, "/vms/edit", page, policy.VMChange, submitForm(s.submitBulkEdit, s.showBulkEditForm)},
		{get, "/vms/import", page, policy.InfraChange, s.showImportPage},
		{get, "/vms/:id/export", page, policy.VMChange, showForm(s.showExportForm)},
		{post, "/vms/:id/export", page, policy.VMChange, submitForm(s.exportVM, s.showExportForm)},
		{get, "/exports/:id/content", stream, policy.VMChange, s.sendExport},
		{post, "/exports/:id/delete", page, policy.VMChange, submitWithoutForm(s.deleteExport)},
		{get, "/vms/compare", page, policy.VMSee, s.compareVMsPage},
		{get, "/vms/:id", page, policy.VMSee, s.vmPage},
		{get, "/vms/:id/delete", page, policy.VMChange, showForm(s.confirmDeleteVM)},
		{post, "/vms/:id/delete", page, policy.VMChange, submitForm(s.deleteVM, s.confirmDeleteVM)},
		{post, "/vms/:id/edit", page, policy.VMChange, submitForm(s.editVM, s.showEditForm)},
		{post, "/vms/:id/actions", page, policy.VMUse, submitWithoutForm(s.startVMAction)},
		{post, "/vms/:id/guest", page, policy.VMUse, submitWithoutForm(s.startGuestAction)},
		{get, "/vms/:id/guest/freeze", page, policy.VMUse, showForm(s.showFreezeForm)},
		{post, "/vms/:id/guest/freeze", page, policy.VMUse, submitForm(s.freezeGuest, s.showFreezeForm)},
		{get, "/vms/:id/guest/guestpassword", page, policy.VMChange, showForm(s.showGuestPasswordForm)},
		{post, "/vms/:id/guest/guestpassword", page, policy.VMChange, submitForm(s.setGuestPassword, s.showGuestPasswordForm)},
		{get, "/vms/:id/guest/exec", page, policy.VMChange, showForm(s.showGuestProgramForm)},
		{post, "/vms/:id/guest/exec", page, policy.VMChange, submitForm(s.runGuestProgram, s.showGuestProgramForm)},
		{get, "/vms/:id/protection", page, policy.VMChange, showForm(s.showProtectionForm)},
		{post, "/vms/:id/protection", page, policy.VMChange, submitForm(s.setVMProtection, s.showProtectionForm)},
		{get, "/vms/:id/disks/detach", page, policy.VMChange, showForm(s.confirmDetachDisk)},
		{post, "/vms/:id/disks/detach", page, policy.VMChange, submitForm(s.detachDisk, s.confirmDetachDisk)},
		{get, "/vms/:id/disks/replace", page, policy.VMChange, showForm(s.showReplaceDiskForm)},
		{post, "/vms/:id/disks/replace", page, policy.VMChange, submitForm(s.replaceDisk, s.showReplaceDiskForm)},
		{get, "/vms/:id/disks/image", page, policy.VMChange, showForm(s.showDiskImageForm)},
		{post, "/vms/:id/disks/image", page, policy.VMChange, submitForm(s.createDiskImage, s.showDiskImageForm)},
		{get, "/vms/:id/template", page, policy.VMChange, showForm(s.showTemplateForm)},
		{post, "/vms/:id/template", page, policy.VMChange, submitForm(s.createTemplate, s.showTemplateForm)},
		{get, "/vms/:id/migrate", page, policy.InfraChange, showForm(s.showMigrateForm)},
		{post, "/vms/:id/migrate", page, policy.InfraChange, submitForm(s.migrateVM, s.showMigrateForm)},
		{get, "/vms/:id/disks/grow", page, policy.VMChange, showForm(s.showGrowDiskForm)},
		{post, "/vms/:id/disks/grow", page, policy.VMChange, submitForm(s.growDisk, s.showGrowDiskForm)},
		{get, "/vms/:id/disks/move", page, policy.InfraChange, showForm(s.showMoveDiskForm)},
		{post, "/vms/:id/disks/move", page, policy.InfraChange, submitForm(s.moveDisk, s.showMoveDiskForm)},
		{get, "/vms/:id/snapshots/take", page, policy.VMChange, showForm(s.showTakeSnapshotForm)},
		{post, "/vms/:id/snapshots/take", page, policy.VMChange, submitForm(s.takeSnapshot, s.showTakeSnapshotForm)},
		{post, "/vms/:id/snapshots/consolidate", page, policy.VMChange, submitWithoutForm(s.consolidateSnapshots)},
		{get, "/vms/:id/schedules/new", page, policy.VMChange, showForm(s.showScheduleForm)},
		{post, "/vms/:id/schedules/new", page, policy.VMChange, submitForm(s.saveSchedule, s.showScheduleForm)},
		{get, "/vms/:id/schedules/:schedule", page, policy.VMChange, showForm(s.showScheduleForm)},
		{post, "/vms/:id/schedules/:schedule", page, policy.VMChange, submitForm(s.saveSchedule, s.showScheduleForm)},
		{post, "/vms/:id/schedules/:schedule/enable", page, policy.VMChange, submitWithoutForm(s.enableSchedule)},
		{post, "/vms/:id/schedules/:schedule/disable", page, policy.VMChange, submitWithoutForm(s.disableSchedule)},
		{get, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, showForm(s.confirmDeleteSchedule)},
		{post, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, submitForm(s.deleteSchedule, s.confirmDeleteSchedule)},
		{get, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, showForm(s.confirmRevertSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, submitForm(s.revertSnapshot, s.confirmRevertSnapshot)},
		{get, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, showForm(s.confirmDeleteSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, submitForm(s.deleteSnapshot, s.confirmDeleteSnapshot)},
		{get, "/vms/:id/first-boot", page, policy.VMChange, showForm(s.showFirstBootForm)},
		{post, "/vms/:id/first-boot", page, policy.VMChange, submitForm(s.setFirstBoot, s.showFirstBootForm)},
		{post, "/vms/:id/accept-drift", page, policy.VMChange, submitWithoutForm(s.acceptDrift)},
		{post, "/vms/:id/reapply", page, policy.VMChange, submitWithoutForm(s.reapplyVM)},
		{post, "/vms/:id/place/:host", page, policy.InfraChange, submitWithoutForm(s.setVMHost)},
		{get, "/vms/:id/console", page, policy.VMUse, s.consolePage},
		{post, "/vms/:id/console/ticket", page, policy.VMUse, s.createConsoleTicket},
		{get, "/console/:id", stream, policy.VMUse, s.consoleSocket},
		{get, "/menus/vm/:id", page, policy.VMSee, s.vmMenu},
		{get, "/hosts/:host/found/:id", page, policy.InfraSee, s.discoveredVMPage},

		// Customization specs.
		{get, "/customizations", page, policy.VMSee, s.listCustomizations},
		{get, "/customizations/new", page, policy.VMChange, showForm(s.showNewCustomizationForm)},
		{post, "/customizations", page, policy.VMChange, submitForm(s.createCustomization, s.showNewCustomizationForm)},
		{get, "/customizations/:id", page, policy.VMSee, showForm(s.showCustomization)},
		{post, "/customizations/:id", page, policy.VMChange, submitForm(s.editCustomization, s.showCustomization)},
		{get, "/customizations/:id/delete", page, policy.VMChange, showForm(s.confirmDeleteCustomization())},
		{post, "/customizations/:id/delete", page, policy.VMChange, submitForm(s.deleteCustomization, s.confirmDeleteCustomization())},

		// Hosts.
		{get, "/hosts", page, policy.InfraSee, s.coalesceRefreshes(s.listHosts)},
		{get, "/hosts.csv", stream, policy.InfraSee, s.exportHosts},
		{get, "/hosts/join", page, policy.Manage, s.joinPage},
		{post, "/hosts/join", page, policy.Manage, submitWithoutForm(s.createJoinToken)},
		{post, "/hosts/join/:id/revoke", page, policy.Manage, submitWithoutForm(s.revokeJoinToken)},
		{get, "/hosts/labelled", page, policy.InfraSee, s.showLabelledHosts},
		{get, "/hosts/:id", page, policy.InfraSee, s.hostPage},
		{post, "/hosts/:id/edit", page, policy.InfraChange, submitForm(s.editHost, s.showHostForm)},
		{post, "/hosts/:id/conflict", page, policy.InfraChange, submitWithoutForm(s.clearHostConflict)},
		{get, "/hosts/:id/delete", page, policy.InfraChange, showForm(s.confirmDeleteHost())},
		{post, "/hosts/:id/delete", page, policy.InfraChange, submitForm(s.deleteHost, s.confirmDeleteHost())},
		{get, "/menus/host/:id", page, policy.InfraSee, actionMenuHandler(s, s.Control.GetHost, hostPageLayout, hostview.Actions)},

		// Pools.
		{get, "/pools", page, policy.StorageSee, s.coalesceRefreshes(s.listPools)},
		{get, "/pools/matrix", page, policy.InfraSee, s.coalesceRefreshes(s.showPoolGrid)},
		{get, "/pools.csv", stream, policy.StorageSee, s.exportPools},
		{get, "/pools/new", page, policy.InfraChange, showForm(s.showPoolForm)},
		{post, "/pools", page, policy.InfraChange, submitForm(s.createPool, s.showPoolForm)},
		{get, "/pools/:id", page, policy.StorageSee, s.poolPage},
		{get, "/pools/:id/assign", page, policy.InfraChange, showForm(showAssignHostsForm(s, s.assignedPoolPages()))},
		{post, "/pools/:id/assign", page, policy.InfraChange, submitForm(assignToHosts(s, s.assignedPoolPages()), showAssignHostsForm(s, s.assignedPoolPages()))},
		{get, "/pools/:id/hosts/:host/release", page, policy.InfraChange, showForm(confirmReleaseFromHost(s, s.assignedPoolPages()))},
		{post, "/pools/:id/hosts/:host/release", page, policy.InfraChange, submitForm(releaseFromHost(s, s.assignedPoolPages()), confirmReleaseFromHost(s, s.assignedPoolPages()))},
		{post, "/pools/:id/hosts/:host/retry", page, policy.InfraChange, submitWithoutForm(retryOnHost(s, s.assignedPoolPages()))},
		{post, "/pools/:id/retry", page, policy.InfraChange, submitWithoutForm(retryOnAllFailedHosts(s, s.assignedPoolPages()))},
		{get, "/pools/:id/labels", page, policy.InfraChange, showForm(showLabelSelectorForm(s, s.assignedPoolPages()))},
		{post, "/pools/:id/labels", page, policy.InfraChange, submitForm(submitLabelSelectorForm(s, s.assignedPoolPages()), showLabelSelectorForm(s, s.assignedPoolPages()))},
		{post, "/pools/:id/publish", page, policy.InfraChange, submitWithoutForm(s.publishImage)},
		{post, "/pools/:id/withdraw", page, policy.InfraChange, submitWithoutForm(s.withdrawImage)},
		{get, "/pools/:id/volumes/new", page, policy.InfraChange, showForm(s.showNewVolumeForm)},
		{post, "/pools/:id/volumes/new", page, policy.InfraChange, submitForm(s.createVolume, s.showNewVolumeForm)},
		{get, "/pools/:id/volumes/fetch", page, policy.InfraChange, showForm(s.showDownloadVolumeForm)},
		{post, "/pools/:id/volumes/fetch", page, policy.InfraChange, submitForm(s.downloadVolume, s.showDownloadVolumeForm)},
		{get, "/pools/:id/volumes/upload", page, policy.InfraChange, showForm(s.showUploadVolumeForm)},
		{post, "/pools/:id/volumes/upload", page, policy.InfraChange, submitForm(s.createVolumeUpload, s.showUploadVolumeForm)},
		{get, "/pools/:id/volumes/grow", page, policy.InfraChange, showForm(s.volumeDialog(poolview.GrowVolumeForm))},
		{post, "/pools/:id/volumes/grow", page, policy.InfraChange, submitForm(s.growVolume, s.volumeDialog(poolview.GrowVolumeForm))},
		{get, "/pools/:id/volumes/clone", page, policy.InfraChange, showForm(s.volumeDialog(poolview.CloneVolumeForm))},
		{post, "/pools/:id/volumes/clone", page, policy.InfraChange, submitForm(s.cloneVolume, s.volumeDialog(poolview.CloneVolumeForm))},
		{get, "/pools/:id/volumes/convert", page, policy.InfraChange, showForm(s.volumeDialog(poolview.ConvertVolumeForm))},
		{post, "/pools/:id/volumes/convert", page, policy.InfraChange, submitForm(s.convertVolume, s.volumeDialog(poolview.ConvertVolumeForm))},
		{get, "/pools/:id/volumes/content", stream, policy.InfraChange, s.sendVolumeBySession},
		{get, "/pools/:id/volumes/rename", page, policy.InfraChange, showForm(s.volumeDialog(poolview.RenameVolumeForm))},
		{post, "/pools/:id/volumes/rename", page, policy.InfraChange, submitForm(s.renameVolume, s.volumeDialog(poolview.RenameVolumeForm))},
		{get, "/pools/:id/volumes/wipe", page, policy.InfraChange, showForm(s.volumeDialog(poolview.WipeVolumeDialog))},
		{post, "/pools/:id/volumes/wipe", page, policy.InfraChange, submitForm(s.wipeVolume, s.volumeDialog(poolview.WipeVolumeDialog))},
		{get, "/pools/:id/volumes/delete", page, policy.InfraChange, showForm(s.volumeDialog(poolview.DeleteVolumeDialog))},
		{post, "/pools/:id/volumes/delete", page, policy.InfraChange, submitForm(s.deleteVolume, s.volumeDialog(poolview.DeleteVolumeDialog))},
		{get, "/pools/:id/credentials", page, policy.InfraChange, showForm(s.showCredentialsForm)},
		{post, "/pools/:id/credentials", page, policy.InfraChange, submitForm(s.changeCredentials, s.showCredentialsForm)},
		{get, "/pools/:id/delete", page, policy.InfraChange, showForm(confirmDeleteObject(s, s.assignedPoolPages()))},
		{post, "/pools/:id/delete", page, policy.InfraChange, submitForm(deleteObject(s, s.assignedPoolPages()), confirmDeleteObject(s, s.assignedPoolPages()))},
		{get, "/menus/pool/:id", page, policy.StorageSee, actionMenuHandler(s, s.Control.GetPool, poolPageLayout, poolview.Actions)},

		// Security groups.
		{get, "/security-groups", page, policy.VMSee, s.coalesceRefreshes(s.listSecurityGroups)},
		{get, "/security-groups.csv", stream, policy.VMSee, s.exportSecurityGroups},
		{get, "/security-groups/test", page, policy.VMSee, s.trafficTestPage},
		{get, "/security-groups/new", page, policy.VMChange, showForm(s.showSecurityGroupForm)},
		{post, "/security-groups", page, policy.VMChange, submitForm(s.createSecurityGroup, s.showSecurityGroupForm)},
		{get, "/security-groups/:id", page, policy.VMSee, showForm(s.securityGroupPage)},
		{post, "/security-groups/:id/rules", page, policy.VMChange, submitForm(s.changeSecurityGroupRules, s.showSecurityGroupRules)},
		{get, "/security-groups/:id/edit", page, policy.VMChange, showForm(s.showSecurityGroupEditForm)},
		{post, "/security-groups/:id/edit", page, policy.VMChange, submitForm(s.editSecurityGroup, s.showSecurityGroupEditForm)},
		{post, "/security-groups/:id/retry", page, policy.VMChange, submitWithoutForm(s.retrySecurityGroup)},
		{get, "/security-groups/:id/delete", page, policy.VMChange, showForm(s.confirmDeleteSecurityGroup())},
		{post, "/security-groups/:id/delete", page, policy.VMChange, submitForm(s.deleteSecurityGroup, s.confirmDeleteSecurityGroup())},
		{get, "/vms/:id/filters", page, policy.VMChange, showForm(s.showNICFiltersForm)},
		{post, "/vms/:id/filters", page, policy.VMChange, submitForm(s.setNICFilters, s.showNICFiltersForm)},

		// Networks.
		{get, "/networks", page, policy.StorageSee, s.coalesceRefreshes(s.listNetworks)},
		{get, "/networks.csv", stream, policy.StorageSee, s.exportNetworks},
		{get, "/networks/topology", page, policy.InfraSee, s.coalesceRefreshes(s.showNetworkGrid)},
		{get, "/networks/new", page, policy.InfraChange, showForm(s.showNetworkForm)},
		{post, "/networks", page, policy.InfraChange, submitForm(s.createNetwork, s.showNetworkForm)},
		{get, "/networks/:id", page, policy.StorageSee, showForm(s.networkPage)},
		{post, "/networks/:id/grants", page, policy.InfraChange, submitForm(s.setNetworkGrant, s.showNetworkGrants)},
		{get, "/networks/:id/reservations", page, policy.InfraChange, showForm(s.showReservationForm)},
		{post, "/networks/:id/reservations", page, policy.InfraChange, submitForm(s.reserveAddress, s.showReservationForm)},
		{post, "/networks/:id/reservations/:mac/free", page, policy.InfraChange, submitWithoutForm(s.freeAddress)},
		{get, "/networks/:id/port-groups", page, policy.InfraChange, showForm(s.showPortGroupForm)},
		{post, "/networks/:id/port-groups", page, policy.InfraChange, submitForm(s.setPortGroup, s.showPortGroupForm)},
		{post, "/networks/:id/port-groups/:group/delete", page, policy.InfraChange, submitWithoutForm(s.deletePortGroup)},
		{post, "/networks/:id/group-grants", page, policy.InfraChange, submitWithoutForm(s.setPortGroupGrant)},
		{get, "/networks/:id/assign", page, policy.InfraChange, showForm(showAssignHostsForm(s, s.assignedNetworkPages()))},
		{post, "/networks/:id/assign", page, policy.InfraChange, submitForm(assignToHosts(s, s.assignedNetworkPages()), showAssignHostsForm(s, s.assignedNetworkPages()))},
		{get, "/networks/:id/hosts/:host/release", page, policy.InfraChange, showForm(confirmReleaseFromHost(s, s.assignedNetworkPages()))},
		{post, "/networks/:id/hosts/:host/release", page, policy.InfraChange, submitForm(releaseFromHost(s, s.assignedNetworkPages()), confirmReleaseFromHost(s, s.assignedNetworkPages()))},
		{post, "/networks/:id/hosts/:host/retry", page, policy.InfraChange, submitWithoutForm(retryOnHost(s, s.assignedNetworkPages()))},
		{post, "/networks/:id/retry", page, policy.InfraChange, submitWithoutForm(retryOnAllFailedHosts(s, s.assignedNetworkPages()))},
		{get, "/networks/:id/labels", page, policy.InfraChange, showForm(showLabelSelectorForm(s, s.assignedNetworkPages()))},
		{post, "/networks/:id/labels", page, policy.InfraChange, submitForm(submitLabelSelectorForm(s, s.assignedNetworkPages()), showLabelSelectorForm(s, s.assignedNetworkPages()))},
		{get, "/networks/:id/delete", page, policy.InfraChange, showForm(confirmDeleteObject(s, s.assignedNetworkPages()))},
		{post, "/networks/:id/delete", page, policy.InfraChange, submitForm(deleteObject(s, s.assignedNetworkPages()), confirmDeleteObject(s, s.assignedNetworkPages()))},
		{get, "/menus/network/:id", page, policy.StorageSee, actionMenuHandler(s, s.Control.GetNetwork, networkPageLayout, networkview.Actions)},

		// Images.
		{get, "/images", page, policy.StorageSee, s.coalesceRefreshes(s.listImages)},
		{get, "/images.csv", stream, policy.StorageSee, s.exportImages},
		{get, "/images/new", page, policy.InfraChange, showForm(s.showImageForm)},
		{post, "/images", page, policy.InfraChange, submitForm(s.createImage, s.showImageForm)},
		{get, "/images/well-known", page, policy.InfraSee, s.listCatalog},
		{post, "/images/well-known/pull", page, policy.InfraChange, submitWithoutForm(s.pullCatalogEntry)},
		{post, "/images/well-known/restore", page, policy.InfraChange, submitWithoutForm(s.restoreCatalog)},
		{get, "/images/well-known/new", page, policy.InfraChange, showForm(s.catalogEntryDialog(imageview.CatalogEntryForm))},
		{post, "/images/well-known/new", page, policy.InfraChange, submitForm(s.addCatalogEntry, s.catalogEntryDialog(imageview.CatalogEntryForm))},
		{get, "/images/well-known/:id/edit", page, policy.InfraChange, showForm(s.catalogEntryDialog(imageview.CatalogEntryForm))},
		{post, "/images/well-known/:id/edit", page, policy.InfraChange, submitForm(s.editCatalogEntry, s.catalogEntryDialog(imageview.CatalogEntryForm))},
		{get, "/images/well-known/:id/delete", page, policy.InfraChange, showForm(s.catalogEntryDialog(imageview.RemoveCatalogEntryDialog))},
		{post, "/images/well-known/:id/delete", page, policy.InfraChange, submitForm(s.removeCatalogEntry, s.catalogEntryDialog(imageview.RemoveCatalogEntryDialog))},
		{get, "/images/:id", page, policy.StorageSee, showForm(s.imagePage)},
		{post, "/images/:id/grants", page, policy.InfraChange, submitForm(s.setImageGrant, s.showImageGrants)},
		{get, "/images/:id/versions/new", page, policy.InfraChange, showForm(s.imageDialog(imageview.NewVersionForm, nil))},
		{post, "/images/:id/versions/new", page, policy.InfraChange, submitForm(s.addImageVersion, s.imageDialog(imageview.NewVersionForm, nil))},
		{get, "/images/:id/copies/new", page, policy.InfraChange, showForm(s.imageDialog(imageview.NewCopyForm, nil))},
		{post, "/images/:id/copies/new", page, policy.InfraChange, submitForm(s.copyImageToPool, s.imageDialog(imageview.NewCopyForm, nil))},
		{post, "/images/:id/copies/verify", page, policy.InfraChange, submitWithoutForm(s.verifyImageCopy)},
		{post, "/images/:id/copies/forget", page, policy.InfraChange, submitWithoutForm(s.forgetImageCopy)},
		{get, "/images/:id/copies/delete", page, policy.InfraChange, showForm(s.imageDialog(imageview.DeleteCopyDialog, fillImageCopyFromQuery))},
		{post, "/images/:id/copies/delete", page, policy.InfraChange, submitForm(s.deleteImageCopy, s.imageDialog(imageview.DeleteCopyDialog, fillImageCopyFromQuery))},
		{get, "/images/:id/edit", page, policy.InfraChange, showForm(s.imageDialog(imageview.EditForm, nil))},
		{post, "/images/:id/edit", page, policy.InfraChange, submitForm(s.editImage, s.imageDialog(imageview.EditForm, nil))},
		{get, "/images/:id/delete", page, policy.VMChange, showForm(s.imageDialog(imageview.DeleteDialog, nil))},
		{post, "/images/:id/delete", page, policy.VMChange, submitForm(s.deleteImage, s.imageDialog(imageview.DeleteDialog, nil))},
		{get, "/templates", page, policy.StorageSee, s.coalesceRefreshes(s.listTemplates)},
		{get, "/templates.csv", stream, policy.StorageSee, s.exportTemplates},
		{get, "/templates/:id", page, policy.StorageSee, showForm(s.templatePage)},
		{post, "/templates/:id/grants", page, policy.InfraChange, submitForm(s.setTemplateGrant, s.showTemplateGrants)},
		{post, "/templates/:id/deprecate", page, policy.VMChange, submitWithoutForm(s.deprecateVersion)},
		{get, "/templates/:id/versions/delete", page, policy.VMChange, showForm(s.confirmDeleteTemplateVersion)},
		{post, "/templates/:id/versions/delete", page, policy.VMChange, submitForm(s.deleteTemplateVersion, s.confirmDeleteTemplateVersion)},
		{get, "/templates/:id/edit", page, policy.VMChange, showForm(s.templateDialog(templateview.EditForm))},
		{post, "/templates/:id/edit", page, policy.VMChange, submitForm(s.editTemplate, s.templateDialog(templateview.EditForm))},
		{get, "/templates/:id/delete", page, policy.VMChange, showForm(s.templateDialog(templateview.DeleteDialog))},
		{post, "/templates/:id/delete", page, policy.VMChange, submitForm(s.deleteTemplate, s.templateDialog(templateview.DeleteDialog))},
		{get, "/menus/template/:id", page, policy.StorageSee, actionMenuHandler(s, s.Control.GetTemplate, templatePageLayout, templateview.Actions)},
		{get, "/menus/image/:id", page, policy.StorageSee, actionMenuHandler(s, s.Control.GetImage, imagePageLayout, imageview.Actions)},

		// Projects and users.
		{get, "/projects", page, policy.VMSee, s.listProjects},
		{get, "/projects/switch", page, policy.VMSee, s.showProjectMenu},
		{get, "/projects/new", page, policy.Manage, showForm(s.showProjectForm)},
		{post, "/projects", page, policy.Manage, submitForm(s.createProject, s.showProjectForm)},
		{get, "/projects/:id", page, policy.VMSee, showForm(s.projectPage)},
		{post, "/projects/:id/members", page, policy.Manage, submitForm(s.setMember, s.projectPage)},
		{get, "/projects/:id/edit", page, policy.Manage, showForm(s.showProjectForm)},
		{post, "/projects/:id/edit", page, policy.Manage, submitForm(s.editProject, s.showProjectForm)},
		{get, "/projects/:id/delete", page, policy.Manage, showForm(s.confirmDeleteProject())},
		{post, "/projects/:id/delete", page, policy.Manage, submitForm(s.deleteProject, s.confirmDeleteProject())},
		{get, "/users", page, policy.Manage, s.listUsers},
		{get, "/users/new", page, policy.Manage, showForm(s.showUserForm)},
		{post, "/users", page, policy.Manage, submitForm(s.createUser, s.showUserForm)},
		{get, "/users/:id", page, policy.Manage, showForm(s.userPage)},
		{post, "/users/:id", page, policy.Manage, submitForm(s.editUser, s.userPage)},
		{get, "/users/:id/password", page, policy.Manage, showForm(s.confirmResetPassword)},
		{post, "/users/:id/password", page, policy.Manage, submitForm(s.resetPassword, s.confirmResetPassword)},
		{get, "/users/:id/delete", page, policy.Manage, showForm(s.confirmDeleteUser())},
		{post, "/users/:id/delete", page, policy.Manage, submitForm(s.deleteUser, s.confirmDeleteUser())},

		// Tasks.
		{get, "/tasks", page, policy.TasksSee, s.listTasks},
		{get, "/tasks.csv", stream, policy.TasksSee, s.exportTasks},
		{get, "/tasks/recent", page, policy.TasksSee, s.recentTasks},
		{get, "/tasks/running", page, policy.TasksSee, s.runningTasks},
		{get, "/tasks/:id", page, policy.TasksSee, s.taskPage},
		{post, "/tasks/:id/cancel", page, policy.TasksSee, submitWithoutForm(s.cancelTask)},
	}
	return slices.Concat(pages, s.uploadRoutes(), s.apiRoutes(), s.agentRoutes())
}

// apiRoutes lists the routes of /api/v1 with the permission of each operation.
func (s *Server) apiRoutes() []route {
	routes := []route{
		{get, api.Base + "/openapi.json", apiCall, noPermission, s.api.ServeDescription},
		{get, api.Base + "/console/:id", socket, policy.VMUse, s.apiConsoleSocket},
	}
	for _, o := range s.api.Routes() {
		routes = append(routes, route{o.Method, o.Path, apiCall, o.Permission, nil})
	}
	return routes
}

// agentRoutes lists the routes of /agent/v1.
func (s *Server) agentRoutes() (routes []route) {
	for _, r := range s.agents.Routes() {
		routes = append(routes, route{r.Method, r.Path, agentCall, r.Permission, nil})
	}
	return routes
}
