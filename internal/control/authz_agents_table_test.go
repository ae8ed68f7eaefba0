package control_test

import (
	"time"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/control/channels"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/wire"
)

var agentUseCases = map[string]useCase{
	// Use cases for agents. The system actor is not tested, because the portal never acts as a host.
	"Hello": {permittedActors: allAgents, args: func(w *authzFixture) []any {
		return []any{wire.Hello{Instance: w.uniqueName("instance"), Fingerprint: "f"}}
	}},
	"Claim": {permittedActors: allAgents, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		w.execSQL(`DELETE FROM jobs`)
		return []any{wire.ClaimRequest{Max: 1}, time.Duration(0)}
	}},
	"NewJobWaiter": {permittedActors: allAgents, args: func(*authzFixture) []any { return nil }},
	"Report": {permittedActors: allAgents, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		return []any{wire.Report{Seq: w.nextReportSeq(), Digest: "d", State: &wire.State{Host: fleet.HostStatus{Connected: true}}}}
	}},
	"StoreArtifact": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		return []any{w.hostJob(), int64(7), testArchive(w.t, "fine")}
	}},
	"ReportHealth": {permittedActors: allAgents, args: func(*authzFixture) []any {
		return []any{healthevent.Report{Instance: "a", Checks: []healthevent.CheckReport{{Check: "clock", State: healthevent.CheckOK}}}}
	}},
	"Progress": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		return []any{w.job("running"), wire.Progress{Epoch: 7, Percent: 50}}
	}},
	"Finish": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		return []any{w.job("running"), wire.Finish{Epoch: 7, Generation: 1, Seq: w.nextReportSeq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}}
	}},
	"FinishAll": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		return []any{[]wire.Result{{Job: w.job("running"), Finish: wire.Finish{Epoch: 7, Generation: 1, Seq: w.nextReportSeq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}}}}
	}},
	"ExchangeTransferData": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		id, job, other := fleet.NewID[fleet.TransferID](), w.job("running"), w.someHost()
		w.execSQL(`INSERT INTO transfers (id, send_job, receive_job, from_host, to_host) VALUES ($1, $2, $2, $3, $4)`, id, job, w.h1, other)
		return []any{id, wire.TransferState{Job: job, Epoch: 7}}
	}},
	"JoinRelay": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		w.renewAgentSessions()
		id, secret := w.console()
		if _, err := w.RedeemConsole(w.t.Context(), w.actors["member"], id, secret); err != nil {
			w.t.Fatal(err)
		}
		return []any{id}
	}},
	"PoolSecret": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		id := w.poolWithSecret()
		if _, err := w.ChangePoolSecret(w.t.Context(), chief, id, "secretsecret1"); err != nil {
			w.t.Fatal(err)
		}
		return []any{id}
	}},
	"ReleaseManifest": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any { return w.orderedRelease() }},
	"OpenRelease":     {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any { return w.orderedRelease() }},
	"GuestSecret": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		id := w.vm()
		w.execSQL(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, id)
		task, err := w.SendGuestRequest(w.t.Context(), chief, id, control.GuestRequest{Action: fleet.ActGuestPassword, User: "root", Password: "violet lantern"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.execSQL(`UPDATE jobs SET state = 'running', epoch = 7, lease_until = now() + interval '1 hour' WHERE id = $1`, task.ID)
		return []any{fleet.JobID(task.ID)}
	}},
	"FirstBootForHost": {permittedActors: onlyOwnAgent, args: func(w *authzFixture) []any {
		w.execSQL(enableFirstBootsSQL)
		vm, err := w.CreateVM(w.t.Context(), chief, control.CreateVM{ProjectID: w.red, Name: w.uniqueName("red"), HostID: w.h1, Spec: smallSpec, FirstBoot: hostnameFirstBoot("a")})
		if err != nil {
			w.t.Fatal(err)
		}
		return []any{vm.ID, wire.FirstBootRequest{FirstBoot: vm.Spec.FirstBoot}}
	}},
	"CheckSession": {permittedActors: allAgents, args: func(w *authzFixture) []any { w.renewAgentSessions(); return nil }},
	"RenewHost": {permittedActors: allAgents, args: func(w *authzFixture) []any {
		key, err := auth.CSRKeyHash(someCSR())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, who := range []string{"agent", "alien"} {
			a := w.actors[who]
			a.KeyHash = string(key)
			w.actors[who] = a
		}
		return []any{someCSR()}
	}},

	// Use cases that only the portal itself calls.
	"ActorOfSession": {permittedActors: onlyPortal, args: func(*authzFixture) []any { return []any{fleet.UserID("wes"), time.Now().Add(time.Hour)} }},
	"Authority":      {permittedActors: onlyPortal, args: noArgs},

	"AuthorityCertificate": {permittedActors: onlyPortal, args: noArgs},

	"EnsureAdmin": {permittedActors: onlyPortal, args: noArgs},
	"StaleHosts":  {permittedActors: onlyPortal, args: noArgs},
	"VMsOnHosts":  {permittedActors: onlyPortal, args: func(w *authzFixture) []any { return []any{[]fleet.HostID{w.h1}} }},
	"AuditRefusal": {permittedActors: onlyPortal, args: func(w *authzFixture) []any {
		return []any{w.actors["blueMember"], "GET /vms", fleet.Errorf(fleet.Forbidden, "No.")}
	}},
	"RememberBrowser":       {permittedActors: onlyPortal, args: func(w *authzFixture) []any { return []any{w.someUser(), ""} }},
	"EvaluateAlarms":        {permittedActors: onlyPortal, args: noArgs},
	"NotifyAlarms":          {permittedActors: onlyPortal, args: noArgs},
	"ClaimDeliveries":       {permittedActors: onlyPortal, args: noArgs},
	"SendDelivery":          {permittedActors: onlyPortal, args: func(*authzFixture) []any { return []any{channels.Claimed{}} }},
	"PredictPools":          {permittedActors: onlyPortal, args: noArgs},
	"DeleteOldHostEvents":   {permittedActors: onlyPortal, args: noArgs},
	"ActOnHealth":           {permittedActors: onlyPortal, args: noArgs},
	"PruneEvents":           {permittedActors: onlyPortal, args: noArgs},
	"LogHostLiveness":       {permittedActors: onlyPortal, args: noArgs},
	"HostAlarmFindings":     {permittedActors: onlyPortal, args: noArgs},
	"PoolAlarmFindings":     {permittedActors: onlyPortal, args: noArgs},
	"NetworkAlarmFindings":  {permittedActors: onlyPortal, args: noArgs},
	"VMAlarmFindings":       {permittedActors: onlyPortal, args: noArgs},
	"BeginTasks":            {permittedActors: onlyPortal, args: noArgs},
	"EvictVMs":              {permittedActors: onlyPortal, args: noArgs},
	"DeleteStrandedDisks":   {permittedActors: onlyPortal, args: noArgs},
	"AdvanceUpgrades":       {permittedActors: onlyPortal, args: noArgs},
	"SettleMaintenance":     {permittedActors: onlyPortal, args: noArgs},
	"EndStaleHostCommands":  {permittedActors: onlyPortal, args: noArgs},
	"ClaimBMCs":             {permittedActors: onlyPortal, args: noArgs},
	"ClaimPowerOrders":      {permittedActors: onlyPortal, args: noArgs},
	"AdvanceTerminations":   {permittedActors: onlyPortal, args: noArgs},
	"ReadBMC":               {permittedActors: onlyPortal, args: func(w *authzFixture) []any { return []any{w.claimedBMC()} }},
	"RunPowerOrder":         {permittedActors: onlyPortal, args: func(w *authzFixture) []any { return []any{w.claimedOrder()} }},
	"AssignToMatchingHosts": {permittedActors: onlyPortal, args: noArgs},
	"UpdateOverlayPeers":    {permittedActors: onlyPortal, args: noArgs},
	"QueueDriftedObjects":   {permittedActors: onlyPortal, args: noArgs},
	"ReassignMovedVMs":      {permittedActors: onlyPortal, args: noArgs},
}
