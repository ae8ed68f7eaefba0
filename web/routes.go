package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// handler answers one route; a is who asks, with at least the route's right (in some project, where the right is one of projects).
type handler func(c echo.Context, a fleet.Actor) error

// kind says how a route is treated on its way in.
type kind int

const (
	page   kind = iota // HTML and forms: session, 64 KiB, answered within 5 s
	stream             // SSE and websockets: session, without a deadline
	api                // JSON: bearer token, 1 MiB
	socket             // websockets of programs: bearer token, without a deadline
	plain              // neither session nor token: health, static files
)

// anyone marks a route that asks for no right; control still refuses what the actor may not do.
const anyone policy.Right = ""

// route is one line of the table. handle is nil where the API's own router holds the handler.
type route struct {
	method, path string
	kind         kind
	right        policy.Right
	handle       handler
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// routes lists everything that browsers and programs can ask. A route that is not here does not exist: see TestEveryRouteIsInTheTable.
func (s *Server) routes() []route {
	pages := []route{
		{get, "/healthz", plain, anyone, s.alive},
		{get, "/readyz", plain, anyone, s.ready},
		{get, "/metrics", plain, anyone, s.showMetrics}, // this machine, or a token with the right to see hosts
		{get, "/static/*", plain, anyone, s.static},

		// Signing in, and one's own account.
		{get, "/sign-in", page, anyone, s.signInPage},
		{post, "/sign-in", page, anyone, s.signIn},
		{post, "/sign-out", page, anyone, s.signOut},
		{get, "/account/password", page, policy.Self, s.passwordPage},
		{post, "/account/password", page, policy.Self, s.changePassword},
		{get, "/account", page, policy.Self, s.accountPage},
		{get, "/account/tokens", page, policy.Self, s.tokensPage},
		{post, "/account/tokens", page, policy.Self, s.createToken},
		{get, "/account/tokens/:id/delete", page, policy.Self, s.deleteTokenPage},
		{post, "/account/tokens/:id/delete", page, policy.Self, s.deleteToken},

		// The frame.
		{get, "/", page, policy.VMSee, s.dashboard},
		{get, "/events", stream, policy.Self, s.events},
		{get, "/search", page, policy.VMSee, s.searchPage},
		{get, "/search/suggest", page, policy.VMSee, s.suggest},
		{get, "/complete", page, policy.VMSee, s.complete},
		{get, "/choices/:noun", page, policy.VMSee, s.choicesPage},
		{get, "/tree/:view", page, policy.VMSee, s.treeRoot},
		{get, "/tree/:view/:node", page, policy.VMSee, s.treeLevel},

		// What a person keeps of a list.
		{get, "/views/:list", page, policy.Self, s.viewsPage},
		{post, "/views/:list", page, policy.Self, s.saveView},
		{post, "/views/:list/:id/delete", page, policy.Self, s.deleteView},

		// VMs.
		{get, "/vms", page, policy.VMSee, s.listVMs},
		{get, "/vms.csv", stream, policy.VMSee, s.exportVMs},
		{post, "/vms/bulk", page, policy.VMUse, s.actOnVMs},
		{get, "/vms/bulk/:id", page, policy.VMUse, s.bulkPage},
		{get, "/vms/new", page, policy.VMChange, s.newVM},
		{post, "/vms", page, policy.VMChange, s.createVM},
		{get, "/vms/:id", page, policy.VMSee, s.vmPage},
		{get, "/vms/:id/delete", page, policy.VMChange, s.deleteVMPage},
		{post, "/vms/:id/delete", page, policy.VMChange, s.deleteVM},
		{post, "/vms/:id/edit", page, policy.VMChange, s.editVM},
		{post, "/vms/:id/actions", page, policy.VMUse, s.actOnVM},
		{get, "/vms/:id/disks/detach", page, policy.VMChange, s.detachDiskPage},
		{post, "/vms/:id/disks/detach", page, policy.VMChange, s.detachDisk},
		{get, "/vms/:id/disks/replace", page, policy.VMChange, s.replaceDiskPage},
		{post, "/vms/:id/disks/replace", page, policy.VMChange, s.replaceDisk},
		{post, "/vms/:id/takeover", page, policy.VMChange, s.takeOverVM},
		{post, "/vms/:id/putback", page, policy.VMChange, s.putBackVM},
		{post, "/vms/:id/place/:host", page, policy.InfraChange, s.placeVM},
		{get, "/vms/:id/console", page, policy.VMUse, s.consolePage},
		{post, "/vms/:id/console/ticket", page, policy.VMUse, s.consoleTicket},
		{get, "/console/:id", stream, policy.VMUse, s.consoleSocket},
		{get, "/menus/vm/:id", page, policy.VMSee, s.vmMenu},
		{get, "/hosts/:host/found/:id", page, policy.InfraSee, s.foundVMPage},

		// Hosts.
		{get, "/hosts", page, policy.InfraSee, s.listHosts},
		{get, "/hosts.csv", stream, policy.InfraSee, s.exportHosts},
		{get, "/hosts/join", page, policy.Manage, s.joinPage},
		{post, "/hosts/join", page, policy.Manage, s.makeJoinToken},
		{post, "/hosts/join/:id/revoke", page, policy.Manage, s.revokeJoinToken},
		{get, "/hosts/:id", page, policy.InfraSee, s.hostPage},
		{post, "/hosts/:id/edit", page, policy.InfraChange, s.editHost},
		{post, "/hosts/:id/conflict", page, policy.InfraChange, s.clearConflict},
		{get, "/hosts/:id/delete", page, policy.InfraChange, s.deleteHostPage},
		{post, "/hosts/:id/delete", page, policy.InfraChange, s.deleteHost},
		{get, "/menus/host/:id", page, policy.InfraSee, s.hostMenu},

		// Pools.
		{get, "/pools", page, policy.StorageSee, s.listPools},
		{get, "/pools.csv", stream, policy.StorageSee, s.exportPools},
		{get, "/pools/new", page, policy.InfraChange, s.newPool},
		{post, "/pools", page, policy.InfraChange, s.createPool},
		{get, "/pools/:id", page, policy.StorageSee, s.poolPage},
		{get, "/pools/:id/assign", page, policy.InfraChange, s.assignPoolPage},
		{post, "/pools/:id/assign", page, policy.InfraChange, s.assignPool},
		{get, "/pools/:id/hosts/:host/release", page, policy.InfraChange, s.releasePoolPage},
		{post, "/pools/:id/hosts/:host/release", page, policy.InfraChange, s.releasePool},
		{post, "/pools/:id/hosts/:host/retry", page, policy.InfraChange, s.retryPool},
		{post, "/pools/:id/publish", page, policy.InfraChange, s.publishImage},
		{post, "/pools/:id/withdraw", page, policy.InfraChange, s.withdrawImage},
		{get, "/pools/:id/delete", page, policy.InfraChange, s.deletePoolPage},
		{post, "/pools/:id/delete", page, policy.InfraChange, s.deletePool},
		{get, "/menus/pool/:id", page, policy.StorageSee, s.poolMenu},

		// Networks.
		{get, "/networks", page, policy.StorageSee, s.listNetworks},
		{get, "/networks.csv", stream, policy.StorageSee, s.exportNetworks},
		{get, "/networks/:id", page, policy.StorageSee, s.networkPage},
		{post, "/networks/:id/grants", page, policy.InfraChange, s.setGrant},
		{get, "/menus/network/:id", page, policy.StorageSee, s.networkMenu},

		// Projects and users.
		{get, "/projects", page, policy.VMSee, s.listProjects},
		{get, "/projects/switch", page, policy.VMSee, s.switchProject},
		{get, "/projects/new", page, policy.Manage, s.newProject},
		{post, "/projects", page, policy.Manage, s.createProject},
		{get, "/projects/:id", page, policy.VMSee, s.projectPage},
		{post, "/projects/:id/members", page, policy.Manage, s.setMember},
		{get, "/projects/:id/edit", page, policy.Manage, s.editProjectPage},
		{post, "/projects/:id/edit", page, policy.Manage, s.editProject},
		{get, "/projects/:id/delete", page, policy.Manage, s.deleteProjectPage},
		{post, "/projects/:id/delete", page, policy.Manage, s.deleteProject},
		{get, "/users", page, policy.Manage, s.listUsers},
		{get, "/users/new", page, policy.Manage, s.newUser},
		{post, "/users", page, policy.Manage, s.createUser},
		{get, "/users/:id", page, policy.Manage, s.userPage},
		{post, "/users/:id", page, policy.Manage, s.editUser},
		{get, "/users/:id/password", page, policy.Manage, s.resetPasswordPage},
		{post, "/users/:id/password", page, policy.Manage, s.resetPassword},
		{get, "/users/:id/delete", page, policy.Manage, s.deleteUserPage},
		{post, "/users/:id/delete", page, policy.Manage, s.deleteUser},

		// Tasks.
		{get, "/tasks", page, policy.TasksSee, s.listTasks},
		{get, "/tasks.csv", stream, policy.TasksSee, s.exportTasks},
		{get, "/tasks/recent", page, policy.TasksSee, s.recentTasks},
		{get, "/tasks/running", page, policy.TasksSee, s.runningTasks},
		{get, "/tasks/:id", page, policy.TasksSee, s.taskPage},
		{post, "/tasks/:id/cancel", page, policy.TasksSee, s.cancelTask},
	}
	return append(pages, s.apiRoutes()...)
}

// proof says what a call of an agent must show. That the host is still there, and the key the one that it joined with last, is
// part of every proof but none.
type proof int

const (
	noProof      proof = iota // a join token in its place
	lapsedProof               // the host's certificate, which may have ended: its renewal
	keyProof                  // the host's certificate; the call opens a session
	sessionProof              // the certificate and the session, asked for before the call is read
	boundProof                // the same, asked for in the call's own statement or transaction, which a second question would slow down
)

// agentRoute is one line of the agents' table.
type agentRoute struct {
	method, path string
	proof        proof
	handle       agentHandler
}

// agentRoutes lists everything that hosts can ask. See TestEveryAgentCallProvesItself.
func (s *Server) agentRoutes() []agentRoute {
	return []agentRoute{
		{post, wire.PathJoin, noProof, s.join},
		{post, wire.PathRenew, lapsedProof, agentCall(agentLimit, s.renew)},
		{post, wire.PathHello, keyProof, agentCall(agentLimit, s.Control.Hello)},
		{post, wire.PathReport, boundProof, agentCall(reportLimit, s.Control.Report)},
		{post, wire.PathClaim, boundProof, s.claim},
		{post, wire.PathJobs + ":id/progress", sessionProof, agentRequest(agentLimit, s.progress)},
		{post, wire.PathJobs + ":id/finish", boundProof, agentRequest(reportLimit, s.finish)},
		{get, wire.PathPair + ":id", boundProof, s.hostPair},
		{get, wire.PathConsole + ":id", boundProof, s.hostPair}, // older agents
	}
}
