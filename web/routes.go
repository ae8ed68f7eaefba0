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

// kind determines the middleware's checks and limits of a route.
type kind int

const (
	page   kind = iota // HTML and forms: session, 64 KiB, answered within 5 s
	stream             // SSE and websockets: session, without a deadline
	api                // JSON: bearer token, 1 MiB
	socket             // websockets for API clients: bearer token, without a deadline
	plain              // neither session nor token: health, static files

	// Uploads and downloads, without limits of size and time. inflow requires a session, tokenInflow a bearer token.
	inflow
	tokenInflow

	// Agent routes, on a separate listener. Each kind requires another proof of the host's identity. All except joining
	// also require that the host exists and uses the key of its latest join.
	joining // a join token instead of a certificate
	lapsed  // the host's certificate, which may have expired: for its renewal
	keyed   // the host's certificate; the call opens a session
	proven  // the certificate and the session, checked before the body is read
	bound   // as proven, but control checks the session in the call's own transaction, which saves a query
)

func (k kind) ofAgents() bool { return k >= joining }

// lasts reports whether routes of this kind have no deadline.
func (k kind) lasts() bool { return k == stream || k == socket || k == inflow || k == tokenInflow }

// byToken reports whether routes of this kind require a bearer token.
func (k kind) byToken() bool { return k == api || k == socket || k == tokenInflow }

// anyone marks a route without a required permission. control still checks the actor's permissions.
const anyone policy.Permission = ""

// route is one row of the table of routes. handle is nil for the routes that huma's router handles, and for the claim
// (see addForAgents).
type route struct {
	method, path string
	kind         kind
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
		{get, "/healthz", plain, anyone, s.alive},
		{get, "/readyz", plain, anyone, s.ready},
		// showMetrics requires a client on this machine, or a token with permission to see hosts
		{get, "/metrics", plain, anyone, s.showMetrics},
		{get, "/static/*", plain, anyone, s.static},

		{get, "/help", page, anyone, s.helpPage},
		{get, "/help/:chapter", page, anyone, s.helpPage},

		// Sign-in and the user's own account.
		{get, "/sign-in", page, anyone, s.signInPage},
		{post, "/sign-in", page, anyone, s.signIn},
		{post, "/sign-out", page, anyone, s.signOut},
		{get, "/account/password", page, policy.Self, ask(s.passwordPage)},
		{post, "/account/password", page, policy.Self, submit(s.changePassword, s.passwordPage)},
		{get, "/account", page, policy.Self, s.accountPage},
		{get, "/account/tokens", page, policy.Self, ask(s.tokensPage)},
		{post, "/account/tokens", page, policy.Self, submit(s.createToken, s.tokensPage)},
		{get, "/account/tokens/:id/delete", page, policy.Self, ask(s.askDeleteToken())},
		{post, "/account/tokens/:id/delete", page, policy.Self, submit(s.deleteToken, s.askDeleteToken())},

		// The frame around each page.
		{get, "/", page, policy.VMSee, s.coalesce(s.dashboard)},
		{get, "/events", stream, policy.Self, s.events},
		{get, "/search", page, policy.VMSee, s.searchPage},
		{get, "/search/suggest", page, policy.VMSee, s.suggest},
		{get, "/complete", page, policy.VMSee, s.complete},
		{get, "/choices/:noun", page, policy.VMSee, s.choicesPage},
		{get, "/tree/:view", page, policy.VMSee, s.treeRoot},
		{get, "/tree/:view/:node", page, policy.VMSee, s.treeLevel},

		// Saved views of lists.
		{get, "/views/:list", page, policy.Self, ask(s.viewsPage)},
		{post, "/views/:list", page, policy.Self, submit(s.saveView, s.viewsPage)},
		{post, "/views/:list/:id/delete", page, policy.Self, button(s.deleteView)},

		// VMs.
		{get, "/vms", page, policy.VMSee, s.coalesce(s.listVMs)},
		{get, "/vms.csv", stream, policy.VMSee, s.exportVMs},
		{post, "/vms/bulk", page, policy.VMUse, submit(s.actOnVMs, s.askOfVMs)},
		{get, "/vms/bulk/:id", page, policy.VMUse, s.bulkPage},
		{get, "/vms/new", page, policy.VMChange, ask(s.askVM)},
		{post, "/vms", page, policy.VMChange, submit(s.createVM, s.askVM)},
		{post, "/vms/new/summary", page, policy.VMChange, button(s.summarize)},
		{post, "/vms/plan", page, policy.VMChange, submit(s.planNew, s.askVM)},
		{post, "/vms/:id/plan", page, policy.VMChange, submit(s.planEdit, s.editedVM)},
		{get, "/plans/:id", page, policy.VMChange, ask(s.planPage)},
		{post, "/plans/:id", page, policy.VMChange, submit(s.carryOut, s.planPage)},
		{get, "/vms/edit", page, policy.VMChange, ask(s.askBulkEdit)},
		{post, "/vms/edit", page, policy.VMChange, submit(s.submitBulkEdit, s.askBulkEdit)},
		{get, "/vms/import", page, policy.InfraChange, s.importPage},
		{get, "/vms/:id/export", page, policy.VMChange, ask(s.askExport)},
		{post, "/vms/:id/export", page, policy.VMChange, submit(s.exportVM, s.askExport)},
		{get, "/exports/:id/content", stream, policy.VMChange, s.sendExport},
		{post, "/exports/:id/delete", page, policy.VMChange, button(s.deleteExport)},
		{get, "/vms/compare", page, policy.VMSee, s.comparePage},
		{get, "/vms/:id", page, policy.VMSee, s.vmPage},
		{get, "/vms/:id/delete", page, policy.VMChange, ask(s.askDeleteVM)},
		{post, "/vms/:id/delete", page, policy.VMChange, submit(s.deleteVM, s.askDeleteVM)},
		{post, "/vms/:id/edit", page, policy.VMChange, submit(s.editVM, s.editedVM)},
		{post, "/vms/:id/actions", page, policy.VMUse, button(s.actOnVM)},
		{post, "/vms/:id/guest", page, policy.VMUse, button(s.askGuest)},
		{get, "/vms/:id/guest/freeze", page, policy.VMUse, ask(s.askFreeze)},
		{post, "/vms/:id/guest/freeze", page, policy.VMUse, submit(s.freezeGuest, s.askFreeze)},
		{get, "/vms/:id/guest/guestpassword", page, policy.VMChange, ask(s.askGuestPassword)},
		{post, "/vms/:id/guest/guestpassword", page, policy.VMChange, submit(s.setGuestPassword, s.askGuestPassword)},
		{get, "/vms/:id/guest/exec", page, policy.VMChange, ask(s.askExec)},
		{post, "/vms/:id/guest/exec", page, policy.VMChange, submit(s.runProgram, s.askExec)},
		{get, "/vms/:id/protection", page, policy.VMChange, ask(s.askProtection)},
		{post, "/vms/:id/protection", page, policy.VMChange, submit(s.protectVM, s.askProtection)},
		{get, "/vms/:id/disks/detach", page, policy.VMChange, ask(s.askDetachDisk)},
		{post, "/vms/:id/disks/detach", page, policy.VMChange, submit(s.detachDisk, s.askDetachDisk)},
		{get, "/vms/:id/disks/replace", page, policy.VMChange, ask(s.askReplaceDisk)},
		{post, "/vms/:id/disks/replace", page, policy.VMChange, submit(s.replaceDisk, s.askReplaceDisk)},
		{get, "/vms/:id/disks/image", page, policy.VMChange, ask(s.askDiskImage)},
		{post, "/vms/:id/disks/image", page, policy.VMChange, submit(s.imageOfDisk, s.askDiskImage)},
		{get, "/vms/:id/template", page, policy.VMChange, ask(s.askTemplateOf)},
		{post, "/vms/:id/template", page, policy.VMChange, submit(s.templateOfVM, s.askTemplateOf)},
		{get, "/vms/:id/migrate", page, policy.InfraChange, ask(s.askMigrate)},
		{post, "/vms/:id/migrate", page, policy.InfraChange, submit(s.migrateVM, s.askMigrate)},
		{get, "/vms/:id/disks/grow", page, policy.VMChange, ask(s.askGrowDisk)},
		{post, "/vms/:id/disks/grow", page, policy.VMChange, submit(s.growDisk, s.askGrowDisk)},
		{get, "/vms/:id/disks/move", page, policy.InfraChange, ask(s.askMoveDisk)},
		{post, "/vms/:id/disks/move", page, policy.InfraChange, submit(s.moveDisk, s.askMoveDisk)},
		{get, "/vms/:id/snapshots/take", page, policy.VMChange, ask(s.askTakeSnapshot)},
		{post, "/vms/:id/snapshots/take", page, policy.VMChange, submit(s.takeSnapshot, s.askTakeSnapshot)},
		{post, "/vms/:id/snapshots/consolidate", page, policy.VMChange, button(s.consolidateVM)},
		{get, "/vms/:id/schedules/new", page, policy.VMChange, ask(s.askSchedule)},
		{post, "/vms/:id/schedules/new", page, policy.VMChange, submit(s.saveSchedule, s.askSchedule)},
		{get, "/vms/:id/schedules/:schedule", page, policy.VMChange, ask(s.askSchedule)},
		{post, "/vms/:id/schedules/:schedule", page, policy.VMChange, submit(s.saveSchedule, s.askSchedule)},
		{post, "/vms/:id/schedules/:schedule/enable", page, policy.VMChange, button(s.enableSchedule)},
		{post, "/vms/:id/schedules/:schedule/disable", page, policy.VMChange, button(s.disableSchedule)},
		{get, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, ask(s.askDeleteSchedule)},
		{post, "/vms/:id/schedules/:schedule/delete", page, policy.VMChange, submit(s.deleteSchedule, s.askDeleteSchedule)},
		{get, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, ask(s.askRevertSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/revert", page, policy.VMChange, submit(s.revertSnapshot, s.askRevertSnapshot)},
		{get, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, ask(s.askDeleteSnapshot)},
		{post, "/vms/:id/snapshots/:snapshot/delete", page, policy.VMChange, submit(s.deleteSnapshot, s.askDeleteSnapshot)},
		{get, "/vms/:id/first-boot", page, policy.VMChange, ask(s.askFirstBoot)},
		{post, "/vms/:id/first-boot", page, policy.VMChange, submit(s.setFirstBoot, s.askFirstBoot)},
		{post, "/vms/:id/accept-drift", page, policy.VMChange, button(s.acceptDriftOfVM)},
		{post, "/vms/:id/reapply", page, policy.VMChange, button(s.reapplyVM)},
		{post, "/vms/:id/place/:host", page, policy.InfraChange, button(s.placeVM)},
		{get, "/vms/:id/console", page, policy.VMUse, s.consolePage},
		{post, "/vms/:id/console/ticket", page, policy.VMUse, s.consoleTicket},
		{get, "/console/:id", stream, policy.VMUse, s.consoleSocket},
		{get, "/menus/vm/:id", page, policy.VMSee, s.vmMenu},
		{get, "/hosts/:host/found/:id", page, policy.InfraSee, s.discoveredVMPage},

		// Customization specs.
		{get, "/customizations", page, policy.VMSee, s.listCustomizations},
		{get, "/customizations/new", page, policy.VMChange, ask(s.askCustomization)},
		{post, "/customizations", page, policy.VMChange, submit(s.createCustomization, s.askCustomization)},
		{get, "/customizations/:id", page, policy.VMSee, ask(s.showCustomization)},
		{post, "/customizations/:id", page, policy.VMChange, submit(s.editCustomization, s.showCustomization)},
		{get, "/customizations/:id/delete", page, policy.VMChange, ask(s.askDeleteCustomization())},
		{post, "/customizations/:id/delete", page, policy.VMChange, submit(s.deleteCustomization, s.askDeleteCustomization())},

		// Hosts.
		{get, "/hosts", page, policy.InfraSee, s.coalesce(s.listHosts)},
		{get, "/hosts.csv", stream, policy.InfraSee, s.exportHosts},
		{get, "/hosts/join", page, policy.Manage, s.joinPage},
		{post, "/hosts/join", page, policy.Manage, button(s.createJoinToken)},
		{post, "/hosts/join/:id/revoke", page, policy.Manage, button(s.revokeJoinToken)},
		{get, "/hosts/labelled", page, policy.InfraSee, s.labelledHosts},
		{get, "/hosts/:id", page, policy.InfraSee, s.hostPage},
		{post, "/hosts/:id/edit", page, policy.InfraChange, submit(s.editHost, s.editedHost)},
		{post, "/hosts/:id/conflict", page, policy.InfraChange, button(s.clearConflict)},
		{get, "/hosts/:id/delete", page, policy.InfraChange, ask(s.askDeleteHost())},
		{post, "/hosts/:id/delete", page, policy.InfraChange, submit(s.deleteHost, s.askDeleteHost())},
		{get, "/menus/host/:id", page, policy.InfraSee, menu(s, s.Control.GetHost, hostFrame, hostview.Acts)},

		// Pools.
		{get, "/pools", page, policy.StorageSee, s.coalesce(s.listPools)},
		{get, "/pools/matrix", page, policy.InfraSee, s.coalesce(s.poolGrid)},
		{get, "/pools.csv", stream, policy.StorageSee, s.exportPools},
		{get, "/pools/new", page, policy.InfraChange, ask(s.askPool)},
		{post, "/pools", page, policy.InfraChange, submit(s.createPool, s.askPool)},
		{get, "/pools/:id", page, policy.StorageSee, s.poolPage},
		{get, "/pools/:id/assign", page, policy.InfraChange, ask(askAssign(s, s.pools()))},
		{post, "/pools/:id/assign", page, policy.InfraChange, submit(doAssign(s, s.pools()), askAssign(s, s.pools()))},
		{get, "/pools/:id/hosts/:host/release", page, policy.InfraChange, ask(askRelease(s, s.pools()))},
		{post, "/pools/:id/hosts/:host/release", page, policy.InfraChange, submit(doRelease(s, s.pools()), askRelease(s, s.pools()))},
		{post, "/pools/:id/hosts/:host/retry", page, policy.InfraChange, button(doRetry(s, s.pools()))},
		{post, "/pools/:id/retry", page, policy.InfraChange, button(doRetryEverywhere(s, s.pools()))},
		{get, "/pools/:id/labels", page, policy.InfraChange, ask(askLabels(s, s.pools()))},
		{post, "/pools/:id/labels", page, policy.InfraChange, submit(doLabels(s, s.pools()), askLabels(s, s.pools()))},
		{post, "/pools/:id/publish", page, policy.InfraChange, button(s.publishImage)},
		{post, "/pools/:id/withdraw", page, policy.InfraChange, button(s.withdrawImage)},
		{get, "/pools/:id/volumes/new", page, policy.InfraChange, ask(s.askNewVolume)},
		{post, "/pools/:id/volumes/new", page, policy.InfraChange, submit(s.createVolume, s.askNewVolume)},
		{get, "/pools/:id/volumes/fetch", page, policy.InfraChange, ask(s.askFetchVolume)},
		{post, "/pools/:id/volumes/fetch", page, policy.InfraChange, submit(s.fetchVolume, s.askFetchVolume)},
		{get, "/pools/:id/volumes/upload", page, policy.InfraChange, ask(s.askUploadVolume)},
		{post, "/pools/:id/volumes/upload", page, policy.InfraChange, submit(s.uploadVolume, s.askUploadVolume)},
		{get, "/pools/:id/volumes/grow", page, policy.InfraChange, ask(s.askVolume(poolview.GrowVolume))},
		{post, "/pools/:id/volumes/grow", page, policy.InfraChange, submit(s.growVolume, s.askVolume(poolview.GrowVolume))},
		{get, "/pools/:id/volumes/clone", page, policy.InfraChange, ask(s.askVolume(poolview.CloneVolume))},
		{post, "/pools/:id/volumes/clone", page, policy.InfraChange, submit(s.cloneVolume, s.askVolume(poolview.CloneVolume))},
		{get, "/pools/:id/volumes/convert", page, policy.InfraChange, ask(s.askVolume(poolview.ConvertVolume))},
		{post, "/pools/:id/volumes/convert", page, policy.InfraChange, submit(s.convertVolume, s.askVolume(poolview.ConvertVolume))},
		{get, "/pools/:id/volumes/content", stream, policy.InfraChange, s.pageVolume},
		{get, "/pools/:id/volumes/rename", page, policy.InfraChange, ask(s.askVolume(poolview.RenameVolume))},
		{post, "/pools/:id/volumes/rename", page, policy.InfraChange, submit(s.renameVolume, s.askVolume(poolview.RenameVolume))},
		{get, "/pools/:id/volumes/wipe", page, policy.InfraChange, ask(s.askVolume(poolview.WipeVolume))},
		{post, "/pools/:id/volumes/wipe", page, policy.InfraChange, submit(s.wipeVolume, s.askVolume(poolview.WipeVolume))},
		{get, "/pools/:id/volumes/delete", page, policy.InfraChange, ask(s.askVolume(poolview.DeleteVolume))},
		{post, "/pools/:id/volumes/delete", page, policy.InfraChange, submit(s.deleteVolume, s.askVolume(poolview.DeleteVolume))},
		{get, "/pools/:id/credentials", page, policy.InfraChange, ask(s.askCredentials)},
		{post, "/pools/:id/credentials", page, policy.InfraChange, submit(s.changeCredentials, s.askCredentials)},
		{get, "/pools/:id/delete", page, policy.InfraChange, ask(askDelete(s, s.pools()))},
		{post, "/pools/:id/delete", page, policy.InfraChange, submit(doDelete(s, s.pools()), askDelete(s, s.pools()))},
		{get, "/menus/pool/:id", page, policy.StorageSee, menu(s, s.Control.GetPool, poolFrame, poolview.Acts)},

		// Security groups.
		{get, "/security-groups", page, policy.VMSee, s.coalesce(s.listSecurityGroups)},
		{get, "/security-groups.csv", stream, policy.VMSee, s.exportSecurityGroups},
		{get, "/security-groups/test", page, policy.VMSee, s.testPass},
		{get, "/security-groups/new", page, policy.VMChange, ask(s.askSecurityGroup)},
		{post, "/security-groups", page, policy.VMChange, submit(s.createSecurityGroup, s.askSecurityGroup)},
		{get, "/security-groups/:id", page, policy.VMSee, ask(s.securityGroupPage)},
		{post, "/security-groups/:id/rules", page, policy.VMChange, submit(s.setRule, s.showRules)},
		{get, "/security-groups/:id/edit", page, policy.VMChange, ask(s.askGroupEdit)},
		{post, "/security-groups/:id/edit", page, policy.VMChange, submit(s.editGroup, s.askGroupEdit)},
		{post, "/security-groups/:id/retry", page, policy.VMChange, button(s.retryGroup)},
		{get, "/security-groups/:id/delete", page, policy.VMChange, ask(s.askDeleteGroup())},
		{post, "/security-groups/:id/delete", page, policy.VMChange, submit(s.deleteGroup, s.askDeleteGroup())},
		{get, "/vms/:id/filters", page, policy.VMChange, ask(s.askNIC)},
		{post, "/vms/:id/filters", page, policy.VMChange, submit(s.setNIC, s.askNIC)},

		// Networks.
		{get, "/networks", page, policy.StorageSee, s.coalesce(s.listNetworks)},
		{get, "/networks.csv", stream, policy.StorageSee, s.exportNetworks},
		{get, "/networks/topology", page, policy.InfraSee, s.coalesce(s.networkGrid)},
		{get, "/networks/new", page, policy.InfraChange, ask(s.askNetwork)},
		{post, "/networks", page, policy.InfraChange, submit(s.createNetwork, s.askNetwork)},
		{get, "/networks/:id", page, policy.StorageSee, ask(s.networkPage)},
		{post, "/networks/:id/grants", page, policy.InfraChange, submit(s.setGrant, s.showGrants)},
		{get, "/networks/:id/reservations", page, policy.InfraChange, ask(s.askReservation)},
		{post, "/networks/:id/reservations", page, policy.InfraChange, submit(s.reserve, s.askReservation)},
		{post, "/networks/:id/reservations/:mac/free", page, policy.InfraChange, button(s.freeAddress)},
		{get, "/networks/:id/port-groups", page, policy.InfraChange, ask(s.askGroup)},
		{post, "/networks/:id/port-groups", page, policy.InfraChange, submit(s.setGroup, s.askGroup)},
		{post, "/networks/:id/port-groups/:group/delete", page, policy.InfraChange, button(s.deletePortGroup)},
		{post, "/networks/:id/group-grants", page, policy.InfraChange, button(s.setGroupGrant)},
		{get, "/networks/:id/assign", page, policy.InfraChange, ask(askAssign(s, s.networks()))},
		{post, "/networks/:id/assign", page, policy.InfraChange, submit(doAssign(s, s.networks()), askAssign(s, s.networks()))},
		{get, "/networks/:id/hosts/:host/release", page, policy.InfraChange, ask(askRelease(s, s.networks()))},
		{post, "/networks/:id/hosts/:host/release", page, policy.InfraChange, submit(doRelease(s, s.networks()), askRelease(s, s.networks()))},
		{post, "/networks/:id/hosts/:host/retry", page, policy.InfraChange, button(doRetry(s, s.networks()))},
		{post, "/networks/:id/retry", page, policy.InfraChange, button(doRetryEverywhere(s, s.networks()))},
		{get, "/networks/:id/labels", page, policy.InfraChange, ask(askLabels(s, s.networks()))},
		{post, "/networks/:id/labels", page, policy.InfraChange, submit(doLabels(s, s.networks()), askLabels(s, s.networks()))},
		{get, "/networks/:id/delete", page, policy.InfraChange, ask(askDelete(s, s.networks()))},
		{post, "/networks/:id/delete", page, policy.InfraChange, submit(doDelete(s, s.networks()), askDelete(s, s.networks()))},
		{get, "/menus/network/:id", page, policy.StorageSee, menu(s, s.Control.GetNetwork, networkFrame, networkview.Acts)},

		// Images.
		{get, "/images", page, policy.StorageSee, s.coalesce(s.listImages)},
		{get, "/images.csv", stream, policy.StorageSee, s.exportImages},
		{get, "/images/new", page, policy.InfraChange, ask(s.askImage)},
		{post, "/images", page, policy.InfraChange, submit(s.createImage, s.askImage)},
		{get, "/images/well-known", page, policy.InfraSee, s.listStartImages},
		{post, "/images/well-known/pull", page, policy.InfraChange, button(s.pullStartImage)},
		{post, "/images/well-known/restore", page, policy.InfraChange, button(s.restoreStartImages)},
		{get, "/images/well-known/new", page, policy.InfraChange, ask(s.askOfStart(imageview.EditStart))},
		{post, "/images/well-known/new", page, policy.InfraChange, submit(s.addStartImage, s.askOfStart(imageview.EditStart))},
		{get, "/images/well-known/:id/edit", page, policy.InfraChange, ask(s.askOfStart(imageview.EditStart))},
		{post, "/images/well-known/:id/edit", page, policy.InfraChange, submit(s.editStartImage, s.askOfStart(imageview.EditStart))},
		{get, "/images/well-known/:id/delete", page, policy.InfraChange, ask(s.askOfStart(imageview.RemoveStart))},
		{post, "/images/well-known/:id/delete", page, policy.InfraChange, submit(s.removeStartImage, s.askOfStart(imageview.RemoveStart))},
		{get, "/images/:id", page, policy.StorageSee, ask(s.imagePage)},
		{post, "/images/:id/grants", page, policy.InfraChange, submit(s.setImageGrant, s.showImageGrants)},
		{get, "/images/:id/versions/new", page, policy.InfraChange, ask(s.askOfImage(imageview.NewVersion, nil))},
		{post, "/images/:id/versions/new", page, policy.InfraChange, submit(s.addImageVersion, s.askOfImage(imageview.NewVersion, nil))},
		{get, "/images/:id/copies/new", page, policy.InfraChange, ask(s.askOfImage(imageview.NewCopy, nil))},
		{post, "/images/:id/copies/new", page, policy.InfraChange, submit(s.copyImage, s.askOfImage(imageview.NewCopy, nil))},
		{post, "/images/:id/copies/verify", page, policy.InfraChange, button(s.verifyCopy)},
		{post, "/images/:id/copies/forget", page, policy.InfraChange, button(s.forgetCopy)},
		{get, "/images/:id/copies/delete", page, policy.InfraChange, ask(s.askOfImage(imageview.DeleteCopy, fillCopy))},
		{post, "/images/:id/copies/delete", page, policy.InfraChange, submit(s.deleteCopy, s.askOfImage(imageview.DeleteCopy, fillCopy))},
		{get, "/images/:id/edit", page, policy.InfraChange, ask(s.askOfImage(imageview.Edit, nil))},
		{post, "/images/:id/edit", page, policy.InfraChange, submit(s.editImage, s.askOfImage(imageview.Edit, nil))},
		{get, "/images/:id/delete", page, policy.VMChange, ask(s.askOfImage(imageview.Delete, nil))},
		{post, "/images/:id/delete", page, policy.VMChange, submit(s.deleteImage, s.askOfImage(imageview.Delete, nil))},
		{get, "/templates", page, policy.StorageSee, s.coalesce(s.listTemplates)},
		{get, "/templates.csv", stream, policy.StorageSee, s.exportTemplates},
		{get, "/templates/:id", page, policy.StorageSee, ask(s.templatePage)},
		{post, "/templates/:id/grants", page, policy.InfraChange, submit(s.setTemplateGrant, s.showTemplateGrants)},
		{post, "/templates/:id/deprecate", page, policy.VMChange, button(s.deprecateVersion)},
		{get, "/templates/:id/versions/delete", page, policy.VMChange, ask(s.askDeleteVersion)},
		{post, "/templates/:id/versions/delete", page, policy.VMChange, submit(s.deleteTemplateVersion, s.askDeleteVersion)},
		{get, "/templates/:id/edit", page, policy.VMChange, ask(s.askOfTemplate(templateview.Edit))},
		{post, "/templates/:id/edit", page, policy.VMChange, submit(s.editTemplate, s.askOfTemplate(templateview.Edit))},
		{get, "/templates/:id/delete", page, policy.VMChange, ask(s.askOfTemplate(templateview.Delete))},
		{post, "/templates/:id/delete", page, policy.VMChange, submit(s.deleteTemplate, s.askOfTemplate(templateview.Delete))},
		{get, "/menus/template/:id", page, policy.StorageSee, menu(s, s.Control.GetTemplate, templateFrame, templateview.Acts)},
		{get, "/menus/image/:id", page, policy.StorageSee, menu(s, s.Control.GetImage, imageFrame, imageview.Acts)},

		// Projects and users.
		{get, "/projects", page, policy.VMSee, s.listProjects},
		{get, "/projects/switch", page, policy.VMSee, s.switchProject},
		{get, "/projects/new", page, policy.Manage, ask(s.askProject)},
		{post, "/projects", page, policy.Manage, submit(s.createProject, s.askProject)},
		{get, "/projects/:id", page, policy.VMSee, ask(s.projectPage)},
		{post, "/projects/:id/members", page, policy.Manage, submit(s.setMember, s.projectPage)},
		{get, "/projects/:id/edit", page, policy.Manage, ask(s.askProject)},
		{post, "/projects/:id/edit", page, policy.Manage, submit(s.editProject, s.askProject)},
		{get, "/projects/:id/delete", page, policy.Manage, ask(s.askDeleteProject())},
		{post, "/projects/:id/delete", page, policy.Manage, submit(s.deleteProject, s.askDeleteProject())},
		{get, "/users", page, policy.Manage, s.listUsers},
		{get, "/users/new", page, policy.Manage, ask(s.askUser)},
		{post, "/users", page, policy.Manage, submit(s.createUser, s.askUser)},
		{get, "/users/:id", page, policy.Manage, ask(s.userPage)},
		{post, "/users/:id", page, policy.Manage, submit(s.editUser, s.userPage)},
		{get, "/users/:id/password", page, policy.Manage, ask(s.askReset)},
		{post, "/users/:id/password", page, policy.Manage, submit(s.resetPassword, s.askReset)},
		{get, "/users/:id/delete", page, policy.Manage, ask(s.askDeleteUser())},
		{post, "/users/:id/delete", page, policy.Manage, submit(s.deleteUser, s.askDeleteUser())},

		// Tasks.
		{get, "/tasks", page, policy.TasksSee, s.listTasks},
		{get, "/tasks.csv", stream, policy.TasksSee, s.exportTasks},
		{get, "/tasks/recent", page, policy.TasksSee, s.recentTasks},
		{get, "/tasks/running", page, policy.TasksSee, s.runningTasks},
		{get, "/tasks/:id", page, policy.TasksSee, s.taskPage},
		{post, "/tasks/:id/cancel", page, policy.TasksSee, button(s.cancelTask)},
	}
	agents := []route{
		{post, wire.PathJoin, joining, anyone, agentRequest(agentLimit, s.join)},
		{post, wire.PathRenew, lapsed, policy.AgentTalk, agentCall(agentLimit, s.renew)},
		{post, wire.PathHello, keyed, policy.AgentTalk, agentCall(agentLimit, s.Control.Hello)},
		{post, wire.PathReport, bound, policy.AgentTalk, agentCall(reportLimit, s.Control.Report)},
		{post, wire.PathClaim, bound, policy.AgentTalk, nil}, // s.claim
		{post, wire.PathJobs + ":id/progress", proven, policy.AgentTalk, agentRequest(agentLimit, s.progress)},
		{post, wire.PathJobs + ":id/finish", bound, policy.AgentTalk, agentRequest(reportLimit, s.finish)},
		{post, wire.PathResults, bound, policy.AgentTalk, agentRequest(reportLimit, s.finishAll)},
		{post, wire.PathJobs + ":id/secret", proven, policy.AgentTalk, agentRequest(agentLimit, s.guestSecret)},
		{post, wire.PathPools + ":id/secret", proven, policy.AgentTalk, agentRequest(agentLimit, s.poolSecret)},
		{post, wire.PathFirstBoots + ":id", proven, policy.AgentTalk, agentRequest(agentLimit, s.firstBoot)},
		{post, wire.PathTransfers + ":id/meet", proven, policy.AgentTalk, agentRequest(agentLimit, s.meet)},
		{get, wire.PathPair + ":id", bound, policy.AgentTalk, s.hostPair},
		{get, wire.PathConsole + ":id", bound, policy.AgentTalk, s.hostPair}, // older agents
	}
	return slices.Concat(pages, s.uploadRoutes(), s.apiRoutes(), agents)
}
