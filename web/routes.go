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
	"quantix/web/pages"
)

// handler answers requests for one route. a is the actor, who has the route's permission (in at least one project, if
// the permission is per project).
type handler func(c echo.Context, a fleet.Actor) error

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

// routes lists all routes for browsers, API clients and agents. TestEveryRegisteredRouteIsInRouteTable and
// TestEveryAgentRouteRequiresProof verify that no other route exists.
func (s *Server) routes() []route {
	pools, networks := s.pages.PoolAssignmentPages(), s.pages.NetworkAssignmentPages()
	rows := []route{
		{get, "/healthz", unauthenticated, noPermission, s.livenessProbe},
		{get, "/readyz", unauthenticated, noPermission, s.readinessProbe},
		// showMetrics requires a client on this machine, or a token with permission to see hosts
		{get, "/metrics", unauthenticated, noPermission, s.showMetrics},
		{get, "/static/*", unauthenticated, noPermission, s.serveAsset},

		{get, "/help", page, noPermission, s.pages.HelpPage},
		{get, "/help/:chapter", page, noPermission, s.pages.HelpPage},

		// Sign-in and the user's own account.
		{get, "/sign-in", page, noPermission, s.signInPage},
		{post, "/sign-in", page, noPermission, s.signIn},
		{post, "/sign-out", page, noPermission, s.signOut},
		{get, "/account/password", page, policy.OwnAccount, form.Show(s.pages.PasswordPage)},
		{post, "/account/password", page, policy.OwnAccount, form.Submit(s.pages.ChangePassword, s.pages.PasswordPage)},
		{get, "/account", page, policy.OwnAccount, s.pages.AccountPage},
		{get, "/account/tokens", page, policy.OwnAccount, form.Show(s.pages.TokensPage)},
		{post, "/account/tokens", page, policy.OwnAccount, form.Submit(s.pages.CreateToken, s.pages.TokensPage)},
		{get, "/account/tokens/:id/delete", page, policy.OwnAccount, form.Show(s.pages.ConfirmDeleteToken())},
		{post, "/account/tokens/:id/delete", page, policy.OwnAccount, form.Submit(s.pages.DeleteToken, s.pages.ConfirmDeleteToken())},

		// The start page, and the parts of the page layout: event stream, search, tree and the like.
		{get, "/", page, policy.VMSee, s.coalesceRefreshes(s.pages.DashboardPage)},
		{get, "/events", stream, policy.OwnAccount, s.eventStream},
		{get, "/search", page, policy.VMSee, s.pages.SearchPage},
		{get, "/search/suggest", page, policy.VMSee, s.pages.SuggestSearchResults},
		{get, "/complete", page, policy.VMSee, s.pages.CompleteFilter},
		{get, "/choices/:noun", page, policy.VMSee, s.pages.ShowSelectOptions},
		{get, "/tree/:view", page, policy.VMSee, s.renderer.ShowTreeRoot},
		{get, "/tree/:view/:node", page, policy.VMSee, s.renderer.ShowTreeLevel},

		// Saved views of lists.
		{get, "/views/:list", page, policy.OwnAccount, form.Show(s.pages.SavedViewsPage)},
		{post, "/views/:list", page, policy.OwnAccount, form.Submit(s.pages.CreateSavedView, s.pages.SavedViewsPage)},
		{post, "/views/:list/:id/delete", page, policy.OwnAccount, form.SubmitWithoutForm(s.pages.DeleteSavedView)},

		// VMs.
		{get, "/vms", page, policy.VMSee, s.coalesceRefreshes(s.vmPages.ListVMs)},
		{get, "/vms.csv", stream, policy.VMSee, s.vmPages.ExportVMsCSV},
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
		{get, "/vms/:id/renew", page, policy.VMChange, form.Show(s.vmPages.ShowRenewForm)},
		{post, "/vms/:id/renew", page, policy.VMChange, form.Submit(s.vmPages.RenewVM, s.vmPages.ShowRenewForm)},
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
		{post, "/vms/:id/ignore-drift", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.IgnoreDrift)},
		{post, "/vms/:id/show-drift", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.ShowDrift)},
		{post, "/vms/:id/reapply", page, policy.VMChange, form.SubmitWithoutForm(s.vmPages.ReapplyVM)},
		{post, "/vms/:id/place/:host", page, policy.InfraChange, form.SubmitWithoutForm(s.vmPages.SetVMHost)},
		{get, "/vms/:id/console", page, policy.VMUse, s.vmPages.ConsolePage},
		{post, "/vms/:id/console/ticket", page, policy.VMUse, s.createConsoleTicket},
		{get, "/console/:id", stream, policy.VMUse, s.consoleSocket},
		{get, "/console-sessions", page, policy.VMSee, s.coalesceRefreshes(s.pages.ListConsoleSessions)},
		{get, "/console-sessions.csv", stream, policy.VMSee, s.pages.ExportConsoleSessionsCSV},
		{post, "/console-sessions/:id/end", page, policy.VMUse, form.SubmitWithoutForm(s.pages.EndConsoleSession)},
		{post, "/console-sessions/:id/ask", page, policy.VMUse, form.SubmitWithoutForm(s.pages.AskForKeyboard)},
		{post, "/console-sessions/:id/keyboard", page, policy.VMUse, form.SubmitWithoutForm(s.pages.GiveKeyboard)},
		{get, "/menus/console/:id", page, policy.VMSee, s.pages.ConsoleSessionMenu()},
		{get, "/vms/:id/metrics", page, policy.VMSee, s.vmPages.VMMetrics},
		{get, "/menus/vm/:id", page, policy.VMSee, s.vmPages.VMMenu},
		{get, "/hosts/:host/found/:id", page, policy.InfraSee, s.vmPages.DiscoveredVMPage},
		{post, "/hosts/:host/found/:id/actions", page, policy.InfraChange, form.SubmitWithoutForm(s.vmPages.StartDiscoveredVMAction)},
		{get, "/hosts/:host/found/:id/adopt", page, policy.InfraChange, form.Show(s.vmPages.ShowAdoptForm)},
		{post, "/hosts/:host/found/:id/adopt", page, policy.InfraChange, form.Submit(s.vmPages.AdoptVM, s.vmPages.ShowAdoptForm)},
		{post, "/vms/found/adopt", page, policy.InfraChange, form.Submit(s.vmPages.AdoptVMs, s.vmPages.ShowAdoptManyForm)},
		{post, "/vms/found/actions", page, policy.InfraChange, form.Submit(s.vmPages.StartDiscoveredVMActions, s.vmPages.ShowDiscoveredVMActions)},
		{get, "/menus/found/:host/:id", page, policy.InfraSee, s.vmPages.DiscoveredVMMenu},
		{get, "/vms/:id/release", page, policy.InfraChange, form.Show(s.vmPages.ShowReleaseForm)},
		{post, "/vms/:id/release", page, policy.InfraChange, form.Submit(s.vmPages.ReleaseVM, s.vmPages.ShowReleaseForm)},
		{get, "/hosts/:host/found/:id/console", page, policy.InfraChange, s.vmPages.DiscoveredConsolePage},
		{post, "/hosts/:host/found/:id/console/ticket", page, policy.InfraChange, s.createDiscoveredConsoleTicket},

		// The recycle bin.
		{get, "/recycle-bin", page, policy.VMSee, s.coalesceRefreshes(s.pages.ListRecycleBin)},
		{get, "/recycle-bin.csv", stream, policy.VMSee, s.pages.ExportRecycleBin},
		{post, "/recycle-bin/purge", page, policy.VMChange, form.Submit(s.pages.PurgeVMs, s.pages.ShowPurgeManyForm)},
		{get, "/recycle-bin/settings", page, policy.Manage, form.Show(s.pages.ShowBinSettings)},
		{post, "/recycle-bin/settings", page, policy.Manage, form.Submit(s.pages.SetFleetBin, s.pages.ShowBinSettings)},
		{get, "/recycle-bin/:id", page, policy.VMSee, s.pages.RecycledPage},
		{get, "/recycle-bin/:id/restore", page, policy.VMChange, form.Show(s.pages.ShowRestoreForm)},
		{post, "/recycle-bin/:id/restore", page, policy.VMChange, form.Submit(s.pages.RestoreVM, s.pages.ShowRestoreForm)},
		{get, "/recycle-bin/:id/purge", page, policy.VMChange, form.Show(s.pages.ShowPurgeForm)},
		{post, "/recycle-bin/:id/purge", page, policy.VMChange, form.Submit(s.pages.PurgeVM, s.pages.ShowPurgeForm)},
		{get, "/menus/recycled/:id", page, policy.VMSee, s.pages.RecycledMenu()},

		// Customization specs.
		{get, "/customizations", page, policy.VMSee, s.vmPages.ListCustomizations},
		{get, "/customizations/new", page, policy.VMChange, form.Show(s.vmPages.ShowNewCustomizationForm)},
		{post, "/customizations", page, policy.VMChange, form.Submit(s.vmPages.CreateCustomization, s.vmPages.ShowNewCustomizationForm)},
		{get, "/customizations/:id", page, policy.VMSee, form.Show(s.vmPages.ShowCustomization)},
		{post, "/customizations/:id", page, policy.VMChange, form.Submit(s.vmPages.EditCustomization, s.vmPages.ShowCustomization)},
		{post, "/customizations/:id/grants", page, policy.InfraChange, form.Submit(s.vmPages.SetCustomizationGrant, s.vmPages.ShowCustomizationGrants)},
		{get, "/customizations/:id/delete", page, policy.VMChange, form.Show(s.vmPages.ConfirmDeleteCustomization())},
		{post, "/customizations/:id/delete", page, policy.VMChange, form.Submit(s.vmPages.DeleteCustomization, s.vmPages.ConfirmDeleteCustomization())},

		// Hosts.
		{get, "/hosts", page, policy.InfraSee, s.coalesceRefreshes(s.pages.ListHosts)},
		{get, "/hosts.csv", stream, policy.InfraSee, s.pages.ExportHostsCSV},
		{get, "/hosts/join", page, policy.Manage, s.pages.JoinPage},
		{post, "/hosts/join", page, policy.Manage, form.SubmitWithoutForm(s.pages.CreateJoinToken)},
		{post, "/hosts/join/:id/revoke", page, policy.Manage, form.SubmitWithoutForm(s.pages.RevokeJoinToken)},
		{get, "/hosts/upgrade", page, policy.InfraChange, form.Show(s.pages.ShowUpgradeForm)},
		{post, "/hosts/upgrade", page, policy.InfraChange, form.Submit(s.pages.UpgradeAgents, s.pages.ShowUpgradeForm)},
		{get, "/hosts/labelled", page, policy.InfraSee, s.pages.ShowLabelledHosts},
		{get, "/hosts/:id", page, policy.InfraSee, s.pages.HostPage},
		{get, "/hosts/monitor", page, policy.InfraSee, s.pages.FleetMonitorPage},
		{get, "/hosts/metrics", page, policy.InfraSee, s.pages.FleetMetrics},
		{get, "/hosts/:id/metrics", page, policy.InfraSee, s.pages.HostMetrics},
		{post, "/hosts/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditHost, s.pages.ShowHostForm)},
		{post, "/hosts/:id/cordon", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.CordonHost(fleet.ActCordon))},
		{post, "/hosts/:id/uncordon", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.CordonHost(fleet.ActUncordon))},
		{get, "/hosts/:id/maintenance", page, policy.InfraChange, form.Show(s.pages.ShowMaintenanceForm)},
		{post, "/hosts/:id/maintenance", page, policy.InfraChange, form.Submit(s.pages.EnterMaintenance, s.pages.ShowMaintenanceForm)},
		{get, "/hosts/:id/leave-maintenance", page, policy.InfraChange, form.Show(s.pages.ShowLeaveMaintenanceForm)},
		{post, "/hosts/:id/leave-maintenance", page, policy.InfraChange, form.Submit(s.pages.LeaveMaintenance, s.pages.ShowLeaveMaintenanceForm)},
		{get, "/hosts/:id/reboot", page, policy.InfraChange, form.Show(s.pages.ConfirmHostPower(fleet.ActRebootHost))},
		{post, "/hosts/:id/reboot", page, policy.InfraChange, form.Submit(s.pages.PowerHost(fleet.ActRebootHost), s.pages.ConfirmHostPower(fleet.ActRebootHost))},
		{get, "/hosts/:id/shutdown", page, policy.InfraChange, form.Show(s.pages.ConfirmHostPower(fleet.ActShutDownHost))},
		{post, "/hosts/:id/shutdown", page, policy.InfraChange, form.Submit(s.pages.PowerHost(fleet.ActShutDownHost), s.pages.ConfirmHostPower(fleet.ActShutDownHost))},
		{get, "/hosts/:id/restart-agent", page, policy.InfraChange, form.Show(s.pages.ConfirmRestartAgent)},
		{post, "/hosts/:id/restart-agent", page, policy.InfraChange, form.Submit(s.pages.RestartAgent, s.pages.ConfirmRestartAgent)},
		{get, "/hosts/:id/diagnostics", page, policy.InfraChange, form.Show(s.pages.ShowRunDiagnostics)},
		{post, "/hosts/:id/diagnostics", page, policy.InfraChange, form.Submit(s.pages.RunDiagnostics, s.pages.ShowRunDiagnostics)},
		{get, "/hosts/:id/diagnostics/:artifact", stream, policy.InfraSee, s.pages.DownloadDiagnostics},
		{get, "/hosts/:id/diagnostics/:artifact/:item", page, policy.InfraSee, s.pages.DiagnosticItemPage},
		{get, "/hosts/:id/agent-log.txt", stream, policy.InfraSee, s.pages.DownloadAgentLog},
		{post, "/hosts/:id/agent-log", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.ReadAgentLog)},
		{get, "/hosts/:id/bmc", page, policy.InfraChange, form.Show(s.pages.ShowBMCForm)},
		{post, "/hosts/:id/bmc", page, policy.InfraChange, form.Submit(s.pages.SetBMC, s.pages.ShowBMCForm)},
		{post, "/hosts/:id/bmc/test", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.TestBMC)},
		{post, "/hosts/:id/bmc/delete", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.DeleteBMC)},
		{get, "/hosts/:id/power-on", page, policy.InfraChange, form.Show(s.pages.ConfirmBMCPower(fleet.ActPowerOn))},
		{post, "/hosts/:id/power-on", page, policy.InfraChange, form.Submit(s.pages.SwitchPower(fleet.ActPowerOn), s.pages.ConfirmBMCPower(fleet.ActPowerOn))},
		{get, "/hosts/:id/power-off", page, policy.InfraChange, form.Show(s.pages.ConfirmBMCPower(fleet.ActForcePowerOff))},
		{post, "/hosts/:id/power-off", page, policy.InfraChange, form.Submit(s.pages.SwitchPower(fleet.ActForcePowerOff), s.pages.ConfirmBMCPower(fleet.ActForcePowerOff))},
		{get, "/hosts/:id/reset", page, policy.InfraChange, form.Show(s.pages.ConfirmBMCPower(fleet.ActReset))},
		{post, "/hosts/:id/reset", page, policy.InfraChange, form.Submit(s.pages.SwitchPower(fleet.ActReset), s.pages.ConfirmBMCPower(fleet.ActReset))},
		{get, "/hosts/:id/terminate", page, policy.InfraChange, form.Show(s.pages.ShowTerminationForm)},
		{post, "/hosts/:id/terminate", page, policy.InfraChange, form.Submit(s.pages.TerminateHost, s.pages.ShowTerminationForm)},
		{post, "/hosts/:id/conflict", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.ClearHostConflict)},
		{post, "/hosts/:id/health/resolve", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.ResolveCondition)},
		{get, "/hosts/:id/discovered-pools/:name/adopt", page, policy.InfraChange, form.Show(s.pages.ShowAdoptPoolForm)},
		{post, "/hosts/:id/discovered-pools/:name/adopt", page, policy.InfraChange, form.Submit(s.pages.AdoptPool, s.pages.ShowAdoptPoolForm)},
		{get, "/hosts/:id/discovered-networks/:name/adopt", page, policy.InfraChange, form.Show(s.pages.ShowAdoptNetworkForm)},
		{post, "/hosts/:id/discovered-networks/:name/adopt", page, policy.InfraChange, form.Submit(s.pages.AdoptNetwork, s.pages.ShowAdoptNetworkForm)},
		{get, "/hosts/:id/delete", page, policy.InfraChange, form.Show(s.pages.ConfirmDeleteHost())},
		{post, "/hosts/:id/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteHost, s.pages.ConfirmDeleteHost())},
		{get, "/menus/host/:id", page, policy.InfraSee, s.pages.HostMenu()},

		// Alarms and alarm rules.
		{get, "/alarms", page, policy.VMSee, s.coalesceRefreshes(s.pages.ListAlarms)},
		{get, "/alarms.csv", stream, policy.VMSee, s.pages.ExportAlarms},
		{get, "/alarms/acknowledge", page, policy.VMChange, form.Show(s.pages.ShowAcknowledgeForm)},
		{post, "/alarms/acknowledge", page, policy.VMChange, form.Submit(s.pages.AcknowledgeAlarms, s.pages.ShowAcknowledgeForm)},
		{get, "/alarms/silence", page, policy.VMChange, form.Show(s.pages.ShowSilenceForm)},
		{post, "/alarms/silence", page, policy.VMChange, form.Submit(s.pages.SilenceAlarms, s.pages.ShowSilenceForm)},
		{post, "/alarms/unsilence", page, policy.VMChange, form.SubmitWithoutForm(s.pages.UnsilenceAlarms)},
		{get, "/alarms/:id", page, policy.VMSee, s.pages.AlarmPage},
		{get, "/alarm-rules", page, policy.InfraSee, s.coalesceRefreshes(s.pages.ListAlarmRules)},
		{get, "/alarm-rules.csv", stream, policy.InfraSee, s.pages.ExportAlarmRules},
		{get, "/alarm-rules/new", page, policy.InfraChange, form.Show(s.pages.ShowNewAlarmRuleForm)},
		{post, "/alarm-rules", page, policy.InfraChange, form.Submit(s.pages.CreateAlarmRule, s.pages.ShowNewAlarmRuleForm)},
		{get, "/alarm-rules/:id", page, policy.InfraSee, s.pages.AlarmRulePage},
		{post, "/alarm-rules/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditAlarmRule, s.pages.ShowAlarmRuleForm)},
		{get, "/alarm-rules/:id/delete", page, policy.InfraChange, form.Show(s.pages.ConfirmDeleteAlarmRule())},
		{post, "/alarm-rules/:id/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteAlarmRule, s.pages.ConfirmDeleteAlarmRule())},

		{get, "/channels", page, policy.VMSee, s.pages.ListChannels},
		{get, "/channels/new", page, policy.VMSee, form.Show(s.pages.ShowNewChannelForm)},
		{post, "/channels", page, policy.VMSee, form.Submit(s.pages.CreateChannel, s.pages.ShowNewChannelForm)},
		{get, "/channels/:id", page, policy.VMSee, s.pages.ChannelPage},
		{post, "/channels/:id/edit", page, policy.VMSee, form.Submit(s.pages.EditChannel, s.pages.ShowChannelForm)},
		{post, "/channels/:id/test", page, policy.VMSee, form.SubmitWithoutForm(s.pages.TestChannel)},
		{get, "/channels/:id/delete", page, policy.VMSee, form.Show(s.pages.ConfirmDeleteChannel())},
		{post, "/channels/:id/delete", page, policy.VMSee, form.Submit(s.pages.DeleteChannel, s.pages.ConfirmDeleteChannel())},

		// Health policies.
		{get, "/policies", page, policy.InfraSee, s.pages.ListHealthPolicies},
		{get, "/policies/new", page, policy.InfraChange, form.Show(s.pages.ShowNewPolicyForm)},
		{post, "/policies", page, policy.InfraChange, form.Submit(s.pages.CreateHealthPolicy, s.pages.ShowNewPolicyForm)},
		{post, "/policies/check", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.CheckExpression)},
		{post, "/policies/try", page, policy.InfraChange, form.Submit(s.pages.TryHealthPolicy, s.pages.ShowPolicyForm)},
		{get, "/policies/settings", page, policy.InfraChange, form.Show(s.pages.ShowPolicySettings)},
		{post, "/policies/settings", page, policy.InfraChange, form.Submit(s.pages.SetPolicySettings, s.pages.ShowPolicySettings)},
		{post, "/policies/matches/:match/release", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.ReleaseHealthMatch)},
		{get, "/policies/:id", page, policy.InfraSee, s.pages.HealthPolicyPage},
		{post, "/policies/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditHealthPolicy, s.pages.ShowPolicyForm)},
		{get, "/policies/:id/delete", page, policy.InfraChange, form.Show(s.pages.ConfirmDeletePolicy)},
		{post, "/policies/:id/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteHealthPolicy, s.pages.ConfirmDeletePolicy)},

		// Flavors.
		{get, "/flavors", page, policy.VMSee, s.pages.ListFlavors},
		{get, "/flavors/new", page, policy.InfraChange, form.Show(s.pages.ShowNewFlavorForm)},
		{post, "/flavors", page, policy.InfraChange, form.Submit(s.pages.CreateFlavor, s.pages.ShowNewFlavorForm)},
		{get, "/flavors/:id", page, policy.VMSee, s.pages.FlavorPage},
		{post, "/flavors/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditFlavor, s.pages.ShowFlavorForm)},
		{post, "/flavors/:id/grants", page, policy.InfraChange, form.Submit(s.pages.SetFlavorGrant, s.pages.ShowFlavorGrants)},
		{get, "/flavors/:id/delete", page, policy.InfraChange, form.Show(s.pages.ConfirmDeleteFlavor())},
		{post, "/flavors/:id/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteFlavor, s.pages.ConfirmDeleteFlavor())},

		// Device classes.
		{get, "/device-classes", page, policy.VMSee, s.pages.ListDeviceClasses},
		{get, "/device-classes/new", page, policy.InfraChange, form.Show(s.pages.ShowNewDeviceClassForm)},
		{post, "/device-classes", page, policy.InfraChange, form.Submit(s.pages.CreateDeviceClass, s.pages.ShowNewDeviceClassForm)},
		{get, "/device-classes/:id", page, policy.VMSee, s.pages.DeviceClassPage},
		{post, "/device-classes/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditDeviceClass, s.pages.ShowDeviceClassForm)},
		{get, "/device-classes/:id/devices", page, policy.InfraChange, form.Show(s.pages.ShowAddDevices)},
		{post, "/device-classes/:id/devices", page, policy.InfraChange, form.Submit(s.pages.ChangeClassDevices, s.pages.ShowAddDevices)},
		{post, "/device-classes/:id/grants", page, policy.InfraChange, form.Submit(s.pages.SetDeviceClassGrant, s.pages.ShowDeviceClassGrants)},
		{get, "/device-classes/:id/delete", page, policy.InfraChange, form.Show(s.pages.ConfirmDeleteDeviceClass())},
		{post, "/device-classes/:id/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteDeviceClass, s.pages.ConfirmDeleteDeviceClass())},

		// Clusters.
		{get, "/clusters", page, policy.InfraSee, s.coalesceRefreshes(s.pages.ListClusters)},
		{get, "/clusters.csv", stream, policy.InfraSee, s.pages.ExportClusters},
		{get, "/clusters/new", page, policy.InfraChange, form.Show(s.pages.ShowNewClusterForm)},
		{post, "/clusters", page, policy.InfraChange, form.Submit(s.pages.CreateCluster, s.pages.ShowNewClusterForm)},
		{get, "/clusters/:id", page, policy.InfraSee, s.pages.ClusterPage},
		{get, "/clusters/:id/metrics", page, policy.InfraSee, s.pages.ClusterMetrics},
		{post, "/clusters/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditCluster, s.pages.ShowClusterForm)},
		{get, "/clusters/:id/hosts", page, policy.InfraChange, form.Show(s.pages.ShowAddHostsForm)},
		{post, "/clusters/:id/hosts", page, policy.InfraChange, form.Submit(s.pages.AddHostsToCluster, s.pages.ShowAddHostsForm)},
		{get, "/clusters/:id/delete", page, policy.InfraChange, form.Show(s.pages.ConfirmDeleteCluster())},
		{post, "/clusters/:id/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteCluster, s.pages.ConfirmDeleteCluster())},
		{get, "/menus/cluster/:id", page, policy.InfraSee, s.pages.ClusterMenu()},

		// Pools.
		{get, "/pools", page, policy.StorageSee, s.coalesceRefreshes(s.pages.ListPools)},
		{get, "/pools/matrix", page, policy.InfraSee, s.coalesceRefreshes(s.pages.ShowPoolGrid)},
		{get, "/pools.csv", stream, policy.StorageSee, s.pages.ExportPoolsCSV},
		{get, "/pools/new", page, policy.InfraChange, form.Show(s.pages.ShowPoolForm)},
		{post, "/pools", page, policy.InfraChange, form.Submit(s.pages.CreatePool, s.pages.ShowPoolForm)},
		{get, "/pools/:id", page, policy.StorageSee, form.Show(s.pages.PoolPage)},
		{post, "/pools/:id/grants", page, policy.InfraChange, form.Submit(s.pages.SetPoolGrant, s.pages.ShowPoolGrants)},
		{get, "/pools/:id/metrics", page, policy.InfraSee, s.pages.PoolMetrics},
		{get, "/pools/:id/assign", page, policy.InfraChange, form.Show(pools.ShowAssignHostsForm)},
		{post, "/pools/:id/assign", page, policy.InfraChange, form.Submit(pools.AssignToHosts, pools.ShowAssignHostsForm)},
		{get, "/pools/:id/hosts/:host/release", page, policy.InfraChange, form.Show(pools.ConfirmReleaseFromHost)},
		{post, "/pools/:id/hosts/:host/release", page, policy.InfraChange, form.Submit(pools.ReleaseFromHost, pools.ConfirmReleaseFromHost)},
		{post, "/pools/:id/hosts/:host/retry", page, policy.InfraChange, form.SubmitWithoutForm(pools.RetryOnHost)},
		{post, "/pools/:id/hosts/:host/reapply", page, policy.InfraChange, form.SubmitWithoutForm(pools.ReapplyOnHost)},
		{post, "/pools/:id/hosts/:host/ignore-drift", page, policy.InfraChange, form.SubmitWithoutForm(pools.IgnoreDriftOnHost)},
		{post, "/pools/:id/hosts/:host/show-drift", page, policy.InfraChange, form.SubmitWithoutForm(pools.ShowDriftOnHost)},
		{post, "/pools/:id/retry", page, policy.InfraChange, form.SubmitWithoutForm(pools.RetryOnAllFailedHosts)},
		{get, "/pools/:id/labels", page, policy.InfraChange, form.Show(pools.ShowLabelSelectorForm)},
		{post, "/pools/:id/labels", page, policy.InfraChange, form.Submit(pools.SubmitLabelSelectorForm, pools.ShowLabelSelectorForm)},
		{post, "/pools/:id/publish", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.PublishImage)},
		{post, "/pools/:id/withdraw", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.WithdrawImage)},
		{get, "/pools/:id/volumes/new", page, policy.InfraChange, form.Show(s.pages.ShowNewVolumeForm)},
		{post, "/pools/:id/volumes/new", page, policy.InfraChange, form.Submit(s.pages.CreateVolume, s.pages.ShowNewVolumeForm)},
		{get, "/pools/:id/volumes/fetch", page, policy.InfraChange, form.Show(s.pages.ShowDownloadVolumeForm)},
		{post, "/pools/:id/volumes/fetch", page, policy.InfraChange, form.Submit(s.pages.DownloadVolume, s.pages.ShowDownloadVolumeForm)},
		{get, "/pools/:id/volumes/upload", page, policy.InfraChange, form.Show(s.pages.ShowUploadVolumeForm)},
		{post, "/pools/:id/volumes/upload", page, policy.InfraChange, form.Submit(s.pages.CreateVolumeUpload, s.pages.ShowUploadVolumeForm)},
		{get, "/pools/:id/volumes/grow", page, policy.InfraChange, form.Show(s.pages.VolumeDialog(poolview.GrowVolumeForm))},
		{post, "/pools/:id/volumes/grow", page, policy.InfraChange, form.Submit(s.pages.GrowVolume, s.pages.VolumeDialog(poolview.GrowVolumeForm))},
		{get, "/pools/:id/volumes/clone", page, policy.InfraChange, form.Show(s.pages.VolumeDialog(poolview.CloneVolumeForm))},
		{post, "/pools/:id/volumes/clone", page, policy.InfraChange, form.Submit(s.pages.CloneVolume, s.pages.VolumeDialog(poolview.CloneVolumeForm))},
		{get, "/pools/:id/volumes/convert", page, policy.InfraChange, form.Show(s.pages.VolumeDialog(poolview.ConvertVolumeForm))},
		{post, "/pools/:id/volumes/convert", page, policy.InfraChange, form.Submit(s.pages.ConvertVolume, s.pages.VolumeDialog(poolview.ConvertVolumeForm))},
		{get, "/pools/:id/volumes/content", stream, policy.InfraChange, s.sendVolumeBySession},
		{get, "/pools/:id/volumes/rename", page, policy.InfraChange, form.Show(s.pages.VolumeDialog(poolview.RenameVolumeForm))},
		{post, "/pools/:id/volumes/rename", page, policy.InfraChange, form.Submit(s.pages.RenameVolume, s.pages.VolumeDialog(poolview.RenameVolumeForm))},
		{get, "/pools/:id/volumes/wipe", page, policy.InfraChange, form.Show(s.pages.VolumeDialog(poolview.WipeVolumeDialog))},
		{post, "/pools/:id/volumes/wipe", page, policy.InfraChange, form.Submit(s.pages.WipeVolume, s.pages.VolumeDialog(poolview.WipeVolumeDialog))},
		{get, "/pools/:id/volumes/delete", page, policy.InfraChange, form.Show(s.pages.VolumeDialog(poolview.DeleteVolumeDialog))},
		{post, "/pools/:id/volumes/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteVolume, s.pages.VolumeDialog(poolview.DeleteVolumeDialog))},
		{get, "/pools/:id/credentials", page, policy.InfraChange, form.Show(s.pages.ShowPoolCredentialsForm)},
		{post, "/pools/:id/credentials", page, policy.InfraChange, form.Submit(s.pages.ChangePoolCredentials, s.pages.ShowPoolCredentialsForm)},
		{get, "/pools/:id/delete", page, policy.InfraChange, form.Show(pools.ConfirmDeleteObject)},
		{post, "/pools/:id/delete", page, policy.InfraChange, form.Submit(pools.DeleteObject, pools.ConfirmDeleteObject)},
		{get, "/menus/pool/:id", page, policy.StorageSee, s.pages.PoolMenu()},

		// Security groups.
		{get, "/security-groups", page, policy.VMSee, s.coalesceRefreshes(s.pages.ListSecurityGroups)},
		{get, "/security-groups.csv", stream, policy.VMSee, s.pages.ExportSecurityGroupsCSV},
		{get, "/security-groups/test", page, policy.VMSee, s.pages.TrafficTestPage},
		{get, "/security-groups/new", page, policy.VMChange, form.Show(s.pages.ShowSecurityGroupForm)},
		{post, "/security-groups", page, policy.VMChange, form.Submit(s.pages.CreateSecurityGroup, s.pages.ShowSecurityGroupForm)},
		{get, "/security-groups/:id", page, policy.VMSee, form.Show(s.pages.SecurityGroupPage)},
		{post, "/security-groups/:id/rules", page, policy.VMChange, form.Submit(s.pages.ChangeSecurityGroupRules, s.pages.ShowSecurityGroupRules)},
		{get, "/security-groups/:id/edit", page, policy.VMChange, form.Show(s.pages.ShowSecurityGroupEditForm)},
		{post, "/security-groups/:id/edit", page, policy.VMChange, form.Submit(s.pages.EditSecurityGroup, s.pages.ShowSecurityGroupEditForm)},
		{post, "/security-groups/:id/retry", page, policy.VMChange, form.SubmitWithoutForm(s.pages.RetrySecurityGroup)},
		{get, "/security-groups/:id/delete", page, policy.VMChange, form.Show(s.pages.ConfirmDeleteSecurityGroup())},
		{post, "/security-groups/:id/delete", page, policy.VMChange, form.Submit(s.pages.DeleteSecurityGroup, s.pages.ConfirmDeleteSecurityGroup())},
		{get, "/vms/:id/filters", page, policy.VMChange, form.Show(s.vmPages.ShowNICFiltersForm)},
		{post, "/vms/:id/filters", page, policy.VMChange, form.Submit(s.vmPages.SetNICFilters, s.vmPages.ShowNICFiltersForm)},

		// Networks.
		{get, "/networks", page, policy.StorageSee, s.coalesceRefreshes(s.pages.ListNetworks)},
		{get, "/networks.csv", stream, policy.StorageSee, s.pages.ExportNetworksCSV},
		{get, "/networks/topology", page, policy.InfraSee, s.coalesceRefreshes(s.pages.ShowNetworkGrid)},
		{get, "/networks/new", page, policy.InfraChange, form.Show(s.pages.ShowNetworkForm)},
		{post, "/networks", page, policy.InfraChange, form.Submit(s.pages.CreateNetwork, s.pages.ShowNetworkForm)},
		{get, "/networks/:id", page, policy.StorageSee, form.Show(s.pages.NetworkPage)},
		{post, "/networks/:id/grants", page, policy.InfraChange, form.Submit(s.pages.SetNetworkGrant, s.pages.ShowNetworkGrants)},
		{get, "/networks/:id/reservations", page, policy.InfraChange, form.Show(s.pages.ShowReservationForm)},
		{post, "/networks/:id/reservations", page, policy.InfraChange, form.Submit(s.pages.ReserveAddress, s.pages.ShowReservationForm)},
		{post, "/networks/:id/reservations/:mac/free", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.FreeAddress)},
		{get, "/networks/:id/port-groups", page, policy.InfraChange, form.Show(s.pages.ShowPortGroupForm)},
		{post, "/networks/:id/port-groups", page, policy.InfraChange, form.Submit(s.pages.SetPortGroup, s.pages.ShowPortGroupForm)},
		{post, "/networks/:id/port-groups/:group/delete", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.DeletePortGroup)},
		{post, "/networks/:id/group-grants", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.SetPortGroupGrant)},
		{get, "/networks/:id/assign", page, policy.InfraChange, form.Show(networks.ShowAssignHostsForm)},
		{post, "/networks/:id/assign", page, policy.InfraChange, form.Submit(networks.AssignToHosts, networks.ShowAssignHostsForm)},
		{get, "/networks/:id/hosts/:host/release", page, policy.InfraChange, form.Show(networks.ConfirmReleaseFromHost)},
		{post, "/networks/:id/hosts/:host/release", page, policy.InfraChange, form.Submit(networks.ReleaseFromHost, networks.ConfirmReleaseFromHost)},
		{post, "/networks/:id/hosts/:host/retry", page, policy.InfraChange, form.SubmitWithoutForm(networks.RetryOnHost)},
		{post, "/networks/:id/hosts/:host/reapply", page, policy.InfraChange, form.SubmitWithoutForm(networks.ReapplyOnHost)},
		{post, "/networks/:id/hosts/:host/accept-drift", page, policy.InfraChange, form.SubmitWithoutForm(networks.AcceptDriftOnHost)},
		{post, "/networks/:id/hosts/:host/ignore-drift", page, policy.InfraChange, form.SubmitWithoutForm(networks.IgnoreDriftOnHost)},
		{post, "/networks/:id/hosts/:host/show-drift", page, policy.InfraChange, form.SubmitWithoutForm(networks.ShowDriftOnHost)},
		{post, "/networks/:id/retry", page, policy.InfraChange, form.SubmitWithoutForm(networks.RetryOnAllFailedHosts)},
		{get, "/networks/:id/labels", page, policy.InfraChange, form.Show(networks.ShowLabelSelectorForm)},
		{post, "/networks/:id/labels", page, policy.InfraChange, form.Submit(networks.SubmitLabelSelectorForm, networks.ShowLabelSelectorForm)},
		{get, "/networks/:id/delete", page, policy.InfraChange, form.Show(networks.ConfirmDeleteObject)},
		{post, "/networks/:id/delete", page, policy.InfraChange, form.Submit(networks.DeleteObject, networks.ConfirmDeleteObject)},
		{get, "/menus/network/:id", page, policy.StorageSee, s.pages.NetworkMenu()},

		// Images.
		{get, "/images", page, policy.StorageSee, s.coalesceRefreshes(s.pages.ListImages)},
		{get, "/images.csv", stream, policy.StorageSee, s.pages.ExportImagesCSV},
		{get, "/images/new", page, policy.InfraChange, form.Show(s.pages.ShowImageForm)},
		{post, "/images", page, policy.InfraChange, form.Submit(s.pages.CreateImage, s.pages.ShowImageForm)},
		{get, "/images/well-known", page, policy.InfraSee, s.pages.ListCatalog},
		{post, "/images/well-known/pull", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.PullCatalogEntry)},
		{post, "/images/well-known/restore", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.RestoreCatalog)},
		{get, "/images/well-known/new", page, policy.InfraChange, form.Show(s.pages.CatalogEntryDialog(imageview.CatalogEntryForm))},
		{post, "/images/well-known/new", page, policy.InfraChange, form.Submit(s.pages.AddCatalogEntry, s.pages.CatalogEntryDialog(imageview.CatalogEntryForm))},
		{get, "/images/well-known/:id/edit", page, policy.InfraChange, form.Show(s.pages.CatalogEntryDialog(imageview.CatalogEntryForm))},
		{post, "/images/well-known/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditCatalogEntry, s.pages.CatalogEntryDialog(imageview.CatalogEntryForm))},
		{get, "/images/well-known/:id/delete", page, policy.InfraChange, form.Show(s.pages.CatalogEntryDialog(imageview.RemoveCatalogEntryDialog))},
		{post, "/images/well-known/:id/delete", page, policy.InfraChange, form.Submit(s.pages.RemoveCatalogEntry, s.pages.CatalogEntryDialog(imageview.RemoveCatalogEntryDialog))},
		{get, "/images/:id", page, policy.StorageSee, form.Show(s.pages.ImagePage)},
		{post, "/images/:id/grants", page, policy.InfraChange, form.Submit(s.pages.SetImageGrant, s.pages.ShowImageGrants)},
		{get, "/images/:id/versions/new", page, policy.InfraChange, form.Show(s.pages.ImageDialog(imageview.NewVersionForm, nil))},
		{post, "/images/:id/versions/new", page, policy.InfraChange, form.Submit(s.pages.AddImageVersion, s.pages.ImageDialog(imageview.NewVersionForm, nil))},
		{get, "/images/:id/copies/new", page, policy.InfraChange, form.Show(s.pages.ImageDialog(imageview.NewCopyForm, nil))},
		{post, "/images/:id/copies/new", page, policy.InfraChange, form.Submit(s.pages.CopyImageToPool, s.pages.ImageDialog(imageview.NewCopyForm, nil))},
		{post, "/images/:id/copies/verify", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.VerifyImageCopy)},
		{post, "/images/:id/copies/forget", page, policy.InfraChange, form.SubmitWithoutForm(s.pages.ForgetImageCopy)},
		{get, "/images/:id/copies/delete", page, policy.InfraChange, form.Show(s.pages.ImageDialog(imageview.DeleteCopyDialog, pages.FillImageCopyFromQuery))},
		{post, "/images/:id/copies/delete", page, policy.InfraChange, form.Submit(s.pages.DeleteImageCopy, s.pages.ImageDialog(imageview.DeleteCopyDialog, pages.FillImageCopyFromQuery))},
		{get, "/images/:id/edit", page, policy.InfraChange, form.Show(s.pages.ImageDialog(imageview.EditForm, nil))},
		{post, "/images/:id/edit", page, policy.InfraChange, form.Submit(s.pages.EditImage, s.pages.ImageDialog(imageview.EditForm, nil))},
		{get, "/images/:id/delete", page, policy.VMChange, form.Show(s.pages.ImageDialog(imageview.DeleteDialog, nil))},
		{post, "/images/:id/delete", page, policy.VMChange, form.Submit(s.pages.DeleteImage, s.pages.ImageDialog(imageview.DeleteDialog, nil))},
		{get, "/templates", page, policy.StorageSee, s.coalesceRefreshes(s.pages.ListTemplates)},
		{get, "/templates.csv", stream, policy.StorageSee, s.pages.ExportTemplatesCSV},
		{get, "/templates/:id", page, policy.StorageSee, form.Show(s.pages.TemplatePage)},
		{post, "/templates/:id/grants", page, policy.InfraChange, form.Submit(s.pages.SetTemplateGrant, s.pages.ShowTemplateGrants)},
		{post, "/templates/:id/deprecate", page, policy.VMChange, form.SubmitWithoutForm(s.pages.SetTemplateVersionDeprecated)},
		{get, "/templates/:id/versions/delete", page, policy.VMChange, form.Show(s.pages.ConfirmDeleteTemplateVersion)},
		{post, "/templates/:id/versions/delete", page, policy.VMChange, form.Submit(s.pages.DeleteTemplateVersion, s.pages.ConfirmDeleteTemplateVersion)},
		{get, "/templates/:id/edit", page, policy.VMChange, form.Show(s.pages.TemplateDialog(templateview.EditForm))},
		{post, "/templates/:id/edit", page, policy.VMChange, form.Submit(s.pages.EditTemplate, s.pages.TemplateDialog(templateview.EditForm))},
		{get, "/templates/:id/delete", page, policy.VMChange, form.Show(s.pages.TemplateDialog(templateview.DeleteDialog))},
		{post, "/templates/:id/delete", page, policy.VMChange, form.Submit(s.pages.DeleteTemplate, s.pages.TemplateDialog(templateview.DeleteDialog))},
		{get, "/menus/template/:id", page, policy.StorageSee, s.pages.TemplateMenu()},
		{get, "/menus/image/:id", page, policy.StorageSee, s.pages.ImageMenu()},

		// Projects and users.
		{get, "/projects", page, policy.VMSee, s.pages.ListProjects},
		{get, "/projects.csv", stream, policy.VMSee, s.pages.ExportProjectsCSV},
		{get, "/projects/switch", page, policy.VMSee, s.pages.ShowProjectMenu},
		{get, "/projects/new", page, policy.Manage, form.Show(s.pages.ShowProjectForm)},
		{post, "/projects", page, policy.Manage, form.Submit(s.pages.CreateProject, s.pages.ShowProjectForm)},
		{get, "/projects/:id", page, policy.VMSee, form.Show(s.pages.ProjectPage)},
		{post, "/projects/:id/members", page, policy.Manage, form.Submit(s.pages.SetMember, s.pages.ProjectPage)},
		{get, "/projects/:id/edit", page, policy.Manage, form.Show(s.pages.ShowProjectForm)},
		{post, "/projects/:id/edit", page, policy.Manage, form.Submit(s.pages.EditProject, s.pages.ShowProjectForm)},
		{get, "/projects/:id/usage", page, policy.VMSee, s.pages.ProjectUsagePage},
		{get, "/projects/:id/quota", page, policy.Manage, form.Show(s.pages.ShowQuotaForm)},
		{post, "/projects/:id/quota", page, policy.Manage, form.Submit(s.pages.SetQuota, s.pages.ShowQuotaForm)},
		{get, "/projects/:id/recycle-bin", page, policy.Manage, form.Show(s.pages.ShowBinSettings)},
		{post, "/projects/:id/recycle-bin", page, policy.Manage, form.Submit(s.pages.SetProjectBin, s.pages.ShowBinSettings)},
		{get, "/projects/:id/rules", page, policy.VMSee, form.Show(s.pages.ShowProjectRules)},
		{post, "/projects/:id/rules", page, policy.Manage, form.Submit(s.pages.EditProjectRules, s.pages.ShowProjectRules)},
		{get, "/projects/:id/delete", page, policy.Manage, form.Show(s.pages.ConfirmDeleteProject())},
		{post, "/projects/:id/delete", page, policy.Manage, form.Submit(s.pages.DeleteProject, s.pages.ConfirmDeleteProject())},
		{get, "/requests", page, policy.VMSee, s.coalesceRefreshes(s.pages.ListRequests)},
		{get, "/requests.csv", stream, policy.VMSee, s.pages.ExportRequestsCSV},
		{get, "/requests/new", page, policy.VMChange, form.Show(s.pages.ShowNewRequest)},
		{post, "/requests", page, policy.VMChange, form.Submit(s.pages.CreateRequest, s.pages.ShowNewRequest)},
		{get, "/requests/:id", page, policy.VMSee, s.pages.RequestPage},
		{get, "/requests/:id/decide", page, policy.VMApprove, form.Show(s.pages.ShowDecision)},
		{post, "/requests/:id/approve", page, policy.VMApprove, form.Submit(s.pages.ApproveRequest, s.pages.ShowDecision)},
		{post, "/requests/:id/refuse", page, policy.VMApprove, form.Submit(s.pages.RefuseRequest, s.pages.ShowDecision)},
		{post, "/requests/:id/withdraw", page, policy.VMSee, form.SubmitWithoutForm(s.pages.WithdrawRequest)},
		{get, "/users", page, policy.Manage, s.pages.ListUsers},
		{get, "/users/new", page, policy.Manage, form.Show(s.pages.ShowUserForm)},
		{post, "/users", page, policy.Manage, form.Submit(s.pages.CreateUser, s.pages.ShowUserForm)},
		{get, "/users/:id", page, policy.Manage, form.Show(s.pages.UserPage)},
		{post, "/users/:id", page, policy.Manage, form.Submit(s.pages.EditUser, s.pages.UserPage)},
		{get, "/users/:id/password", page, policy.Manage, form.Show(s.pages.ConfirmResetPassword)},
		{post, "/users/:id/password", page, policy.Manage, form.Submit(s.pages.ResetPassword, s.pages.ConfirmResetPassword)},
		{get, "/users/:id/delete", page, policy.Manage, form.Show(s.pages.ConfirmDeleteUser())},
		{post, "/users/:id/delete", page, policy.Manage, form.Submit(s.pages.DeleteUser, s.pages.ConfirmDeleteUser())},

		// Tasks.
		{get, "/tasks", page, policy.TasksSee, s.pages.ListTasks},
		{get, "/tasks.csv", stream, policy.TasksSee, s.pages.ExportTasksCSV},
		{get, "/tasks/recent", page, policy.TasksSee, s.renderer.ShowRecentTasks},
		{get, "/tasks/running", page, policy.TasksSee, s.renderer.ShowRunningTaskCount},
		{get, "/tasks/:id", page, policy.TasksSee, s.pages.TaskPage},
		{post, "/tasks/:id/cancel", page, policy.TasksSee, form.SubmitWithoutForm(s.pages.CancelTask)},
	}
	return slices.Concat(rows, s.uploadRoutes(), s.apiRoutes(), s.agentRoutes())
}

// apiRoutes lists the routes of /api/v1 with the permission of each operation.
func (s *Server) apiRoutes() []route {
	routes := []route{
		{get, api.Base + "/openapi.json", apiCall, noPermission, s.api.ServeDescription},
		{get, api.Base + "/console/:id", apiStream, policy.VMUse, s.apiConsoleSocket},
	}
	for _, o := range s.api.Routes() {
		kind := apiCall
		if o.Streams {
			kind = apiStream
		}
		routes = append(routes, route{o.Method, o.Path, kind, o.Permission, nil})
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
