package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	imageview "quantix/views/image"
	poolview "quantix/views/pool"
	templateview "quantix/views/template"
	"quantix/web/api"
	"quantix/web/form"
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

		{get, "/help", page, noPermission, s.pages.helpPage},
		{get, "/help/:chapter", page, noPermission, s.pages.helpPage},

		// Sign-in and the user's own account.
		{get, "/sign-in", page, noPermission, s.signInPage},
		{post, "/sign-in", page, noPermission, s.signIn},
		{post, "/sign-out", page, noPermission, s.signOut},
		{get, "/account/password", page, policy.OwnAccount, form.Show(s.pages.passwordPage)},
		{post, "/account/password", page, policy.OwnAccount, form.Submit(s.pages.changePassword, s.pages.passwordPage)},
		{get, "/account", page, policy.OwnAccount, s.pages.accountPage},
		{get, "/account/tokens", page, policy.OwnAccount, form.Show(s.pages.tokensPage)},
		{post, "/account/tokens", page, policy.OwnAccount, form.Submit(s.pages.createToken, s.pages.tokensPage)},
		{get, "/account/tokens/:id/delete", page, policy.OwnAccount, form.Show(s.pages.confirmDeleteToken())},
		{post, "/account/tokens/:id/delete", page, policy.OwnAccount, form.Submit(s.pages.deleteToken, s.pages.confirmDeleteToken())},

		// The start page, and the parts of the page layout: event stream, search, tree and the like.
		{get, "/", page, policy.VMSee, s.coalesceRefreshes(s.pages.dashboardPage)},
		{get, "/events", stream, policy.OwnAccount, s.eventStream},
		{get, "/search", page, policy.VMSee, s.pages.searchPage},
		{get, "/search/suggest", page, policy.VMSee, s.pages.suggestResults},
		{get, "/complete", page, policy.VMSee, s.pages.completeFilter},
		{get, "/choices/:noun", page, policy.VMSee, s.pages.showSelectOptions},
		{get, "/tree/:view", page, policy.VMSee, s.renderer.ShowTreeRoot},
		{get, "/tree/:view/:node", page, policy.VMSee, s.renderer.ShowTreeLevel},

		// Saved views of lists.
		{get, "/views/:list", page, policy.OwnAccount, form.Show(s.pages.savedViewsPage)},
		{post, "/views/:list", page, policy.OwnAccount, form.Submit(s.pages.createSavedView, s.pages.savedViewsPage)},
		{post, "/views/:list/:id/delete", page, policy.OwnAccount, form.SubmitWithoutForm(s.pages.deleteSavedView)},

		// VMs.
		{get, "/vms", page, policy.VMSee, s.coalesceRefreshes(s.vmPages.ListVMs)},
		{get, "/vms.csv", stream, policy.VMSee, s.vmPages.ExportVMs},
		{post, "/vms/bulk", page, policy.VMUse, form.Submit(s.vmPages.StartBulkAction, s.vmPages.ShowBulkActionDialog)},
		{get, "/vms/bulk/:id", page, policy.VMUse, s.vmPages.RedirectOldBulkPage},
		{get, "/vms/new", page, policy.VMChange, form.Show(s.vmPages.ShowNewVMForm)},
		{post, "/vms", page, policy.VMChange, form.Submit(s.vmPages.CreateVM, s.vmPages.ShowNewVMForm)},
		{post, "/vms/new/summary", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.ShowNewVMSummary)},
		{post, "/vms/plan", page, policy.VMChange, form.Submit(s.vmPages.PlanNewVM, s.vmPages.ShowNewVMForm)},
		{post, "/vms/:id/plan", page, policy.VMChange, form.Submit(s.vmPages.PlanVMEdit, s.vmPages.ShowEditForm)},
		{get, "/plans/:id", page, policy.VMChange, form.Show(s.vmPages.PlanPage)},
		{post, "/plans/:id", page, policy.VMChange, form.Submit(s.vmPages.ExecutePlan, s.vmPages.PlanPage)},
		{get, "/vms/edit", page, policy.VMChange, form.Show(s.vmPages.ShowBulkEditForm)},
		{post, "/vms/edit", page, policy.VMChange, form.Submit(s.vmPages.SubmitBulkEdit, s.vmPages.ShowBulkEditForm)},
		{get, "/vms/import", page, policy.InfraChange, s.vmPages.ShowImportPage},
		{get, "/vms/:id/export", page, policy.VMChange, form.Show(s.vmPages.ShowExportForm)},
		{post, "/vms/:id/export", page, policy.VMChange, form.Submit(s.vmPages.ExportVM, s.vmPages.ShowExportForm)},
		{get, "/exports/:id/content", stream, policy.VMChange, s.sendExport},
		{post, "/exports/:id/delete", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.DeleteExport)},
		{get, "/vms/compare", page, policy.VMSee, s.vmPages.CompareVMsPage},
		{get, "/vms/:id", page, policy.VMSee, s.vmPages.VMPage},
		{get, "/vms/:id/delete", page, policy.VMChange, form.Show(s.vmPages.ConfirmDeleteVM)},
		{post, "/vms/:id/delete", page, policy.VMChange, form.Submit(s.vmPages.DeleteVM, s.vmPages.ConfirmDeleteVM)},
		{post, "/vms/:id/edit", page, policy.VMChange, form.Submit(s.vmPages.EditVM, s.vmPages.ShowEditForm)},
		{post, "/vms/:id/actions", page, policy.VMUse, form.SubmitWithoutForm(s.vmPages.StartVMAction)},
		{post, "/vms/:id/guest", page, policy.VMUse, form.SubmitWithoutForm(s.vmPages.StartGuestAction)},
		{get, "/vms/:id/guest/freeze", page, policy.VMUse, form.Show(s.vmPages.ShowFreezeForm)},
		{post, "/vms/:id/guest/freeze", page, policy.VMUse, form.Submit(s.vmPages.FreezeGuest, s.vmPages.ShowFreezeForm)},
		{get, "/vms/:id/guest/guestpassword", page, policy.VMChange, form.Show(s.vmPages.ShowGuestPasswordForm)},
		{post, "/vms/:id/guest/guestpassword", page, policy.VMChange, form.Submit(s.vmPages.SetGuestPassword, s.vmPages.ShowGuestPasswordForm)},
		{get, "/vms/:id/guest/exec", page, policy.VMChange, form.Show(s.vmPages.ShowGuestProgramForm)},
		{post, "/vms/:id/guest/exec", page, policy.VMChange, form.Submit(s.vmPages.RunGuestProgram, s.vmPages.ShowGuestProgramForm)},
		{get, "/vms/:id/protection", page, policy.VMChange, form.Show(s.vmPages.ShowProtectionForm)},
		{post, "/vms/:id/protection", page, policy.VMChange, form.Submit(s.vmPages.SetVMProtection, s.vmPages.ShowProtectionForm)},
		{get, "/vms/:id/disks/detach", page, policy.VMChange, form.Show(s.vmPages.ConfirmDetachDisk)},
		{post, "/vms/:id/disks/detach", page, policy.VMChange, form.Submit(s.vmPages.DetachDisk, s.vmPages.ConfirmDetachDisk)},
		{get, "/vms/:id/disks/replace", page, policy.VMChange, form.Show(s.vmPages.ShowReplaceDiskForm)},
		{post, "/vms/:id/disks/replace", page, policy.VMChange, form.Submit(s.vmPages.ReplaceDisk, s.vmPages.ShowReplaceDiskForm)},
		{get, "/vms/:id/disks/image", page, policy.VMChange, form.Show(s.vmPages.ShowDiskImageForm)},
		{post, "/vms/:id/disks/image", page, policy.VMChange, form.Submit(s.vmPages.CreateDiskImage, s.vmPages.ShowDiskImageForm)},
		{get, "/vms/:id/template", page, policy.VMChange, form.Show(s.vmPages.ShowTemplateForm)},
		{post, "/vms/:id/template", page, policy.VMChange, form.Submit(s.vmPages.CreateTemplate, s.vmPages.ShowTemplateForm)},
		{get, "/vms/:id/migrate", page, policy.InfraChange, form.Show(s.vmPages.ShowMigrateForm)},
		{post, "/vms/:id/migrate", page, policy.InfraChange, form.Submit(s.vmPages.MigrateVM, s.vmPages.ShowMigrateForm)},
		{get, "/vms/:id/disks/grow", page, policy.VMChange, form.Show(s.vmPages.ShowGrowDiskForm)},
		{post, "/vms/:id/disks/grow", page, policy.VMChange, form.Submit(s.vmPages.GrowDisk, s.vmPages.ShowGrowDiskForm)},
		{get, "/vms/:id/disks/move", page, policy.InfraChange, form.Show(s.vmPages.ShowMoveDiskForm)},
		{post, "/vms/:id/disks/move", page, policy.InfraChange, form.Submit(s.vmPages.MoveDisk, s.vmPages.ShowMoveDiskForm)},
		{get, "/vms/:id/snapshots/take", page, policy.VMChange, form.Show(s.vmPages.ShowTakeSnapshotForm)},
		{post, "/vms/:id/snapshots/take", page, policy.VMChange, form.Submit(s.vmPages.TakeSnapshot, s.vmPages.ShowTakeSnapshotForm)},
		{post, "/vms/:id/snapshots/consolidate", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.ConsolidateSnapshots)},
		{get, "/vms/:id/schedules/new", page, policy.VMChange, form.Show(s.vmPages.ShowScheduleForm)},
		{post, "/vms/:id/schedules/new", page, policy.VMChange, form.Submit(s.vmPages.SaveSchedule, s.vmPages.ShowScheduleForm)},
		{get, "/vms/:id/schedules/:schedule", page, policy.VMChange, form.Show(s.vmPages.ShowScheduleForm)},
		{post, "/vms/:id/schedules/:schedule", page, policy.VMChange, form.Submit(s.vmPages.SaveSchedule, s.vmPages.ShowScheduleForm)},
		{post, "/vms/:id/schedules/:schedule/enable", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.EnableSchedule)},
		{post, "/vms/:id/schedules/:schedule/disable", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.DisableSchedule)},
		{get, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, form.Show(s.vmPages.ConfirmDeleteSchedule)},
		{post, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, form.Submit(s.vmPages.DeleteSchedule, s.vmPages.ConfirmDeleteSchedule)},
		{get, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, form.Show(s.vmPages.ConfirmRevertSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, form.Submit(s.vmPages.RevertSnapshot, s.vmPages.ConfirmRevertSnapshot)},
		{get, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, form.Show(s.vmPages.ConfirmDeleteSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, form.Submit(s.vmPages.DeleteSnapshot, s.vmPages.ConfirmDeleteSnapshot)},
		{get, "/vms/:id/first-boot", page, policy.VMChange, form.Show(s.vmPages.ShowFirstBootForm)},
		{post, "/vms/:id/first-boot", page, policy.VMChange, form.Submit(s.vmPages.SetFirstBoot, s.vmPages.ShowFirstBootForm)},
		{post, "/vms/:id/accept-drift", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.AcceptDrift)},
		{post, "/vms/:id/reapply", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.ReapplyVM)},
		{post, "/vms/:id/place/:host", page, policy.InfraChange, form.SubmitWithoutForm(s.vmPages.SetVMHost)},
		{get, "/vms/:id/console", page, policy.VMUse, s.vmPages.ConsolePage},
		{post, "/vms/:id/console/ticket", page, policy.VMUse, s.createConsoleTicket},
		{get, "/console/:id", stream, policy.VMUse, s.consoleSocket},
		{get, "/menus/vm/:id", page, policy.VMSee, s.vmPages.VMMenu},
		{get, "/hosts/:host/found/:id", page, policy.InfraSee, s.vmPages.DiscoveredVMPage},

		// Customization specs.
		{get, "/customizations", page, policy.VMSee, s.vmPages.ListCustomizations},
		{get, "/customizations/new", page, policy.VMChange, form.Show(s.vmPages.ShowNewCustomizationForm)},
		{post, "/customizations", page, policy.VMChange, form.Submit(s.vmPages.CreateCustomization, s.vmPages.ShowNewCustomizationForm)},
		{get, "/customizations/:id", page, policy.VMSee, form.Show(s.vmPages.ShowCustomization)},
		{post, "/customizations/:id", page, policy.VMChange, form.Submit(s.vmPages.EditCustomization, s.vmPages.ShowCustomization)},
		{get, "/customizations/:id/delete", page, policy.VMChange, form.Show(s.vmPages.ConfirmDeleteCustomization())},
		{post, "/customizations/:id/delete", page, policy.VMChange, form.Submit(s.vmPages.DeleteCustomization, s.vmPages.ConfirmDeleteCustomization())},

		// Hosts.
		{get, "/hosts", page, policy.InfraSee, s.coalesceRefreshes(s.pages.listHosts)},
		{get, "/hosts.csv", stream, policy.InfraSee, s.pages.exportHosts},
		{get, "/hosts/join", page, policy.Manage, s.pages.joinPage},
		{post, "/hosts/join", page, policy.Manage, form.SubmitWithoutForm(s.pages.createJoinToken)},
		{post, "/hosts/join/:id/revoke", page, policy.Manage, form.SubmitWithoutForm(s.pages.revokeJoinToken)},
		{get, "/hosts/labelled", page, policy.InfraSee, s.pages.showLabelledHosts},
		{get, "/hosts/:id", page, policy.InfraSee, s.pages.hostPage},
		{post, "/hosts/:id/edit", page, policy.InfraChange, form.Submit(s.pages.editHost, s.pages.showHostForm)},
		{post, "/hosts/:id/conflict", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.clearHostConflict)},
		{get, "/hosts/:id/delete", page, policy.InfraChange, form.Show(s.pages.confirmDeleteHost())},
		{post, "/hosts/:id/delete", page, policy.InfraChange, form.Submit(s.pages.deleteHost, s.pages.confirmDeleteHost())},
		{get, "/menus/host/:id", page, policy.InfraSee, s.pages.hostMenu()},

		// Pools.
		{get, "/pools", page, policy.StorageSee, s.coalesceRefreshes(s.pages.listPools)},
		{get, "/pools/matrix", page, policy.InfraSee, s.coalesceRefreshes(s.pages.showPoolGrid)},
		{get, "/pools.csv", stream, policy.StorageSee, s.pages.exportPools},
		{get, "/pools/new", page, policy.InfraChange, form.Show(s.pages.showPoolForm)},
		{post, "/pools", page, policy.InfraChange, form.Submit(s.pages.createPool, s.pages.showPoolForm)},
		{get, "/pools/:id", page, policy.StorageSee, s.pages.poolPage},
		{get, "/pools/:id/assign", page, policy.InfraChange, form.Show(showAssignHostsForm(s.pages, s.pages.assignedPoolPages()))},
		{post, "/pools/:id/assign", page, policy.InfraChange, form.Submit(assignToHosts(s.pages, s.pages.assignedPoolPages()), showAssignHostsForm(s.pages, s.pages.assignedPoolPages()))},
		{get, "/pools/:id/hosts/:host/release", page, policy.InfraChange, form.Show(confirmReleaseFromHost(s.pages, s.pages.assignedPoolPages()))},
		{post, "/pools/:id/hosts/:host/release", page, policy.InfraChange, form.Submit(releaseFromHost(s.pages, s.pages.assignedPoolPages()), confirmReleaseFromHost(s.pages, s.pages.assignedPoolPages()))},
		{post, "/pools/:id/hosts/:host/retry", page, policy.InfraChange, form.SubmitWithoutForm(retryOnHost(s.pages, s.pages.assignedPoolPages()))},
		{post, "/pools/:id/retry", page, policy.InfraChange, form.SubmitWithoutForm(retryOnAllFailedHosts(s.pages, s.pages.assignedPoolPages()))},
		{get, "/pools/:id/labels", page, policy.InfraChange, form.Show(showLabelSelectorForm(s.pages, s.pages.assignedPoolPages()))},
		{post, "/pools/:id/labels", page, policy.InfraChange, form.Submit(submitLabelSelectorForm(s.pages, s.pages.assignedPoolPages()), showLabelSelectorForm(s.pages, s.pages.assignedPoolPages()))},
		{post, "/pools/:id/publish", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.publishImage)},
		{post, "/pools/:id/withdraw", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.withdrawImage)},
		{get, "/pools/:id/volumes/new", page, policy.InfraChange, form.Show(s.pages.showNewVolumeForm)},
		{post, "/pools/:id/volumes/new", page, policy.InfraChange, form.Submit(s.pages.createVolume, s.pages.showNewVolumeForm)},
		{get, "/pools/:id/volumes/fetch", page, policy.InfraChange, form.Show(s.pages.showDownloadVolumeForm)},
		{post, "/pools/:id/volumes/fetch", page, policy.InfraChange, form.Submit(s.pages.downloadVolume, s.pages.showDownloadVolumeForm)},
		{get, "/pools/:id/volumes/upload", page, policy.InfraChange, form.Show(s.pages.showUploadVolumeForm)},
		{post, "/pools/:id/volumes/upload", page, policy.InfraChange, form.Submit(s.pages.createVolumeUpload, s.pages.showUploadVolumeForm)},
		{get, "/pools/:id/volumes/grow", page, policy.InfraChange, form.Show(s.pages.volumeDialog(poolview.GrowVolumeForm))},
		{post, "/pools/:id/volumes/grow", page, policy.InfraChange, form.Submit(s.pages.growVolume, s.pages.volumeDialog(poolview.GrowVolumeForm))},
		{get, "/pools/:id/volumes/clone", page, policy.InfraChange, form.Show(s.pages.volumeDialog(poolview.CloneVolumeForm))},
		{post, "/pools/:id/volumes/clone", page, policy.InfraChange, form.Submit(s.pages.cloneVolume, s.pages.volumeDialog(poolview.CloneVolumeForm))},
		{get, "/pools/:id/volumes/convert", page, policy.InfraChange, form.Show(s.pages.volumeDialog(poolview.ConvertVolumeForm))},
		{post, "/pools/:id/volumes/convert", page, policy.InfraChange, form.Submit(s.pages.convertVolume, s.pages.volumeDialog(poolview.ConvertVolumeForm))},
		{get, "/pools/:id/volumes/content", stream, policy.InfraChange, s.sendVolumeBySession},
		{get, "/pools/:id/volumes/rename", page, policy.InfraChange, form.Show(s.pages.volumeDialog(poolview.RenameVolumeForm))},
		{post, "/pools/:id/volumes/rename", page, policy.InfraChange, form.Submit(s.pages.renameVolume, s.pages.volumeDialog(poolview.RenameVolumeForm))},
		{get, "/pools/:id/volumes/wipe", page, policy.InfraChange, form.Show(s.pages.volumeDialog(poolview.WipeVolumeDialog))},
		{post, "/pools/:id/volumes/wipe", page, policy.InfraChange, form.Submit(s.pages.wipeVolume, s.pages.volumeDialog(poolview.WipeVolumeDialog))},
		{get, "/pools/:id/volumes/delete", page, policy.InfraChange, form.Show(s.pages.volumeDialog(poolview.DeleteVolumeDialog))},
		{post, "/pools/:id/volumes/delete", page, policy.InfraChange, form.Submit(s.pages.deleteVolume, s.pages.volumeDialog(poolview.DeleteVolumeDialog))},
		{get, "/pools/:id/credentials", page, policy.InfraChange, form.Show(s.pages.showCredentialsForm)},
		{post, "/pools/:id/credentials", page, policy.InfraChange, form.Submit(s.pages.changeCredentials, s.pages.showCredentialsForm)},
		{get, "/pools/:id/delete", page, policy.InfraChange, form.Show(confirmDeleteObject(s.pages, s.pages.assignedPoolPages()))},
		{post, "/pools/:id/delete", page, policy.InfraChange, form.Submit(deleteObject(s.pages, s.pages.assignedPoolPages()), confirmDeleteObject(s.pages, s.pages.assignedPoolPages()))},
		{get, "/menus/pool/:id", page, policy.StorageSee, s.pages.poolMenu()},

		// Security groups.
		{get, "/security-groups", page, policy.VMSee, s.coalesceRefreshes(s.pages.listSecurityGroups)},
		{get, "/security-groups.csv", stream, policy.VMSee, s.pages.exportSecurityGroups},
		{get, "/security-groups/test", page, policy.VMSee, s.pages.trafficTestPage},
		{get, "/security-groups/new", page, policy.VMChange, form.Show(s.pages.showSecurityGroupForm)},
		{post, "/security-groups", page, policy.VMChange, form.Submit(s.pages.createSecurityGroup, s.pages.showSecurityGroupForm)},
		{get, "/security-groups/:id", page, policy.VMSee, form.Show(s.pages.securityGroupPage)},
		{post, "/security-groups/:id/rules", page, policy.VMChange, form.Submit(s.pages.changeSecurityGroupRules, s.pages.showSecurityGroupRules)},
		{get, "/security-groups/:id/edit", page, policy.VMChange, form.Show(s.pages.showSecurityGroupEditForm)},
		{post, "/security-groups/:id/edit", page, policy.VMChange, form.Submit(s.pages.editSecurityGroup, s.pages.showSecurityGroupEditForm)},
		{post, "/security-groups/:id/retry", page, policy.VMChange, form.SubmitWithoutForm(s.pages.retrySecurityGroup)},
		{get, "/security-groups/:id/delete", page, policy.VMChange, form.Show(s.pages.confirmDeleteSecurityGroup())},
		{post, "/security-groups/:id/delete", page, policy.VMChange, form.Submit(s.pages.deleteSecurityGroup, s.pages.confirmDeleteSecurityGroup())},
		{get, "/vms/:id/filters", page, policy.VMChange, form.Show(s.vmPages.ShowNICFiltersForm)},
		{post, "/vms/:id/filters", page, policy.VMChange, form.Submit(s.vmPages.SetNICFilters, s.vmPages.ShowNICFiltersForm)},

		// Networks.
		{get, "/networks", page, policy.StorageSee, s.coalesceRefreshes(s.pages.listNetworks)},
		{get, "/networks.csv", stream, policy.StorageSee, s.pages.exportNetworks},
		{get, "/networks/topology", page, policy.InfraSee, s.coalesceRefreshes(s.pages.showNetworkGrid)},
		{get, "/networks/new", page, policy.InfraChange, form.Show(s.pages.showNetworkForm)},
		{post, "/networks", page, policy.InfraChange, form.Submit(s.pages.createNetwork, s.pages.showNetworkForm)},
		{get, "/networks/:id", page, policy.StorageSee, form.Show(s.pages.networkPage)},
		{post, "/networks/:id/grants", page, policy.InfraChange, form.Submit(s.pages.setNetworkGrant, s.pages.showNetworkGrants)},
		{get, "/networks/:id/reservations", page, policy.InfraChange, form.Show(s.pages.showReservationForm)},
		{post, "/networks/:id/reservations", page, policy.InfraChange, form.Submit(s.pages.reserveAddress, s.pages.showReservationForm)},
		{post, "/networks/:id/reservations/:mac/free", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.freeAddress)},
		{get, "/networks/:id/port-groups", page, policy.InfraChange, form.Show(s.pages.showPortGroupForm)},
		{post, "/networks/:id/port-groups", page, policy.InfraChange, form.Submit(s.pages.setPortGroup, s.pages.showPortGroupForm)},
		{post, "/networks/:id/port-groups/:group/delete", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.deletePortGroup)},
		{post, "/networks/:id/group-grants", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.setPortGroupGrant)},
		{get, "/networks/:id/assign", page, policy.InfraChange, form.Show(showAssignHostsForm(s.pages, s.pages.assignedNetworkPages()))},
		{post, "/networks/:id/assign", page, policy.InfraChange, form.Submit(assignToHosts(s.pages, s.pages.assignedNetworkPages()), showAssignHostsForm(s.pages, s.pages.assignedNetworkPages()))},
		{get, "/networks/:id/hosts/:host/release", page, policy.InfraChange, form.Show(confirmReleaseFromHost(s.pages, s.pages.assignedNetworkPages()))},
		{post, "/networks/:id/hosts/:host/release", page, policy.InfraChange, form.Submit(releaseFromHost(s.pages, s.pages.assignedNetworkPages()), confirmReleaseFromHost(s.pages, s.pages.assignedNetworkPages()))},
		{post, "/networks/:id/hosts/:host/retry", page, policy.InfraChange, form.SubmitWithoutForm(retryOnHost(s.pages, s.pages.assignedNetworkPages()))},
		{post, "/networks/:id/retry", page, policy.InfraChange, form.SubmitWithoutForm(retryOnAllFailedHosts(s.pages, s.pages.assignedNetworkPages()))},
		{get, "/networks/:id/labels", page, policy.InfraChange, form.Show(showLabelSelectorForm(s.pages, s.pages.assignedNetworkPages()))},
		{post, "/networks/:id/labels", page, policy.InfraChange, form.Submit(submitLabelSelectorForm(s.pages, s.pages.assignedNetworkPages()), showLabelSelectorForm(s.pages, s.pages.assignedNetworkPages()))},
		{get, "/networks/:id/delete", page, policy.InfraChange, form.Show(confirmDeleteObject(s.pages, s.pages.assignedNetworkPages()))},
		{post, "/networks/:id/delete", page, policy.InfraChange, form.Submit(deleteObject(s.pages, s.pages.assignedNetworkPages()), confirmDeleteObject(s.pages, s.pages.assignedNetworkPages()))},
		{get, "/menus/network/:id", page, policy.StorageSee, s.pages.networkMenu()},

		// Images.
		{get, "/images", page, policy.StorageSee, s.coalesceRefreshes(s.pages.listImages)},
		{get, "/images.csv", stream, policy.StorageSee, s.pages.exportImages},
		{get, "/images/new", page, policy.InfraChange, form.Show(s.pages.showImageForm)},
		{post, "/images", page, policy.InfraChange, form.Submit(s.pages.createImage, s.pages.showImageForm)},
		{get, "/images/well-known", page, policy.InfraSee, s.pages.listCatalog},
		{post, "/images/well-known/pull", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.pullCatalogEntry)},
		{post, "/images/well-known/restore", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.restoreCatalog)},
		{get, "/images/well-known/new", page, policy.InfraChange, form.Show(s.pages.catalogEntryDialog(imageview.CatalogEntryForm))},
		{post, "/images/well-known/new", page, policy.InfraChange, form.Submit(s.pages.addCatalogEntry, s.pages.catalogEntryDialog(imageview.CatalogEntryForm))},
		{get, "/images/well-known/:id/edit", page, policy.InfraChange, form.Show(s.pages.catalogEntryDialog(imageview.CatalogEntryForm))},
		{post, "/images/well-known/:id/edit", page, policy.InfraChange, form.Submit(s.pages.editCatalogEntry, s.pages.catalogEntryDialog(imageview.CatalogEntryForm))},
		{get, "/images/well-known/:id/delete", page, policy.InfraChange, form.Show(s.pages.catalogEntryDialog(imageview.RemoveCatalogEntryDialog))},
		{post, "/images/well-known/:id/delete", page, policy.InfraChange, form.Submit(s.pages.removeCatalogEntry, s.pages.catalogEntryDialog(imageview.RemoveCatalogEntryDialog))},
		{get, "/images/:id", page, policy.StorageSee, form.Show(s.pages.imagePage)},
		{post, "/images/:id/grants", page, policy.InfraChange, form.Submit(s.pages.setImageGrant, s.pages.showImageGrants)},
		{get, "/images/:id/versions/new", page, policy.InfraChange, form.Show(s.pages.imageDialog(imageview.NewVersionForm, nil))},
		{post, "/images/:id/versions/new", page, policy.InfraChange, form.Submit(s.pages.addImageVersion, s.pages.imageDialog(imageview.NewVersionForm, nil))},
		{get, "/images/:id/copies/new", page, policy.InfraChange, form.Show(s.pages.imageDialog(imageview.NewCopyForm, nil))},
		{post, "/images/:id/copies/new", page, policy.InfraChange, form.Submit(s.pages.copyImageToPool, s.pages.imageDialog(imageview.NewCopyForm, nil))},
		{post, "/images/:id/copies/verify", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.verifyImageCopy)},
		{post, "/images/:id/copies/forget", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.forgetImageCopy)},
		{get, "/images/:id/copies/delete", page, policy.InfraChange, form.Show(s.pages.imageDialog(imageview.DeleteCopyDialog, fillImageCopyFromQuery))},
		{post, "/images/:id/copies/delete", page, policy.InfraChange, form.Submit(s.pages.deleteImageCopy, s.pages.imageDialog(imageview.DeleteCopyDialog, fillImageCopyFromQuery))},
		{get, "/images/:id/edit", page, policy.InfraChange, form.Show(s.pages.imageDialog(imageview.EditForm, nil))},
		{post, "/images/:id/edit", page, policy.InfraChange, form.Submit(s.pages.editImage, s.pages.imageDialog(imageview.EditForm, nil))},
		{get, "/images/:id/delete", page, policy.VMChange, form.Show(s.pages.imageDialog(imageview.DeleteDialog, nil))},
		{post, "/images/:id/delete", page, policy.VMChange, form.Submit(s.pages.deleteImage, s.pages.imageDialog(imageview.DeleteDialog, nil))},
		{get, "/templates", page, policy.StorageSee, s.coalesceRefreshes(s.pages.listTemplates)},
		{get, "/templates.csv", stream, policy.StorageSee, s.pages.exportTemplates},
		{get, "/templates/:id", page, policy.StorageSee, form.Show(s.pages.templatePage)},
		{post, "/templates/:id/grants", page, policy.InfraChange, form.Submit(s.pages.setTemplateGrant, s.pages.showTemplateGrants)},
		{post, "/templates/:id/deprecate", page, policy.VMChange, form.SubmitWithoutForm(s.pages.deprecateVersion)},
		{get, "/templates/:id/versions/delete", page, policy.VMChange, form.Show(s.pages.confirmDeleteTemplateVersion)},
		{post, "/templates/:id/versions/delete", page, policy.VMChange, form.Submit(s.pages.deleteTemplateVersion, s.pages.confirmDeleteTemplateVersion)},
		{get, "/templates/:id/edit", page, policy.VMChange, form.Show(s.pages.templateDialog(templateview.EditForm))},
		{post, "/templates/:id/edit", page, policy.VMChange, form.Submit(s.pages.editTemplate, s.pages.templateDialog(templateview.EditForm))},
		{get, "/templates/:id/delete", page, policy.VMChange, form.Show(s.pages.templateDialog(templateview.DeleteDialog))},
		{post, "/templates/:id/delete", page, policy.VMChange, form.Submit(s.pages.deleteTemplate, s.pages.templateDialog(templateview.DeleteDialog))},
		{get, "/menus/template/:id", page, policy.StorageSee, s.pages.templateMenu()},
		{get, "/menus/image/:id", page, policy.StorageSee, s.pages.imageMenu()},

		// Projects and users.
		{get, "/projects", page, policy.VMSee, s.pages.listProjects},
		{get, "/projects/switch", page, policy.VMSee, s.pages.showProjectMenu},
		{get, "/projects/new", page, policy.Manage, form.Show(s.pages.showProjectForm)},
		{post, "/projects", page, policy.Manage, form.Submit(s.pages.createProject, s.pages.showProjectForm)},
		{get, "/projects/:id", page, policy.VMSee, form.Show(s.pages.projectPage)},
		{post, "/projects/:id/members", page, policy.Manage, form.Submit(s.pages.setMember, s.pages.projectPage)},
		{get, "/projects/:id/edit", page, policy.Manage, form.Show(s.pages.showProjectForm)},
		{post, "/projects/:id/edit", page, policy.Manage, form.Submit(s.pages.editProject, s.pages.showProjectForm)},
		{get, "/projects/:id/delete", page, policy.Manage, form.Show(s.pages.confirmDeleteProject())},
		{post, "/projects/:id/delete", page, policy.Manage, form.Submit(s.pages.deleteProject, s.pages.confirmDeleteProject())},
		{get, "/users", page, policy.Manage, s.pages.listUsers},
		{get, "/users/new", page, policy.Manage, form.Show(s.pages.showUserForm)},
		{post, "/users", page, policy.Manage, form.Submit(s.pages.createUser, s.pages.showUserForm)},
		{get, "/users/:id", page, policy.Manage, form.Show(s.pages.userPage)},
		{post, "/users/:id", page, policy.Manage, form.Submit(s.pages.editUser, s.pages.userPage)},
		{get, "/users/:id/password", page, policy.Manage, form.Show(s.pages.confirmResetPassword)},
		{post, "/users/:id/password", page, policy.Manage, form.Submit(s.pages.resetPassword, s.pages.confirmResetPassword)},
		{get, "/users/:id/delete", page, policy.Manage, form.Show(s.pages.confirmDeleteUser())},
		{post, "/users/:id/delete", page, policy.Manage, form.Submit(s.pages.deleteUser, s.pages.confirmDeleteUser())},

		// Tasks.
		{get, "/tasks", page, policy.TasksSee, s.pages.listTasks},
		{get, "/tasks.csv", stream, policy.TasksSee, s.pages.exportTasks},
		{get, "/tasks/recent", page, policy.TasksSee, s.renderer.RecentTasks},
		{get, "/tasks/running", page, policy.TasksSee, s.renderer.RunningTasks},
		{get, "/tasks/:id", page, policy.TasksSee, s.pages.taskPage},
		{post, "/tasks/:id/cancel", page, policy.TasksSee, form.SubmitWithoutForm(s.pages.cancelTask)},
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
