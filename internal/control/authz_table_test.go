package control_test

import (
	"context"
	"encoding/json"
	"time"

	"quantix/internal/auth"
	"quantix/internal/bin"
	"quantix/internal/connectivity"
	"quantix/internal/control"
	"quantix/internal/control/consoles"
	"quantix/internal/control/deviceclasses"
	"quantix/internal/control/flavors"
	"quantix/internal/control/identity"
	"quantix/internal/control/network"
	"quantix/internal/control/query"
	"quantix/internal/control/recycling"
	"quantix/internal/control/requests"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/request"
	"quantix/internal/secgroup"
	"quantix/internal/vmedit"
	"quantix/internal/wire"
)

func noArgs(*authzFixture) []any      { return nil }
func readUseCase(*authzFixture) []any { return []any{fleet.Query{}} }

// useCases has an entry for every exported method of control.Control, including embedded ones.
var useCases = mergeCases(projectUseCases, agentUseCases, infraUseCases)

// projectUseCases has the entries for objects of projects and users, agentUseCases those that agents and the portal
// call, infraUseCases those for infrastructure.
var projectUseCases = map[string]useCase{
	// VMs of project red.
	"FirstBoot":    {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.vmWithFirstBoot()} }},
	"SetFirstBoot": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.vmWithoutFirstBoot(), *hostnameFirstBoot("a")} }},

	// Channels of project red.
	"ChannelKinds":   {permittedActors: actorsWithAnyRole, args: noArgs},
	"ListChannels":   {permittedActors: actorsWithAnyRole, args: noArgs},
	"GetChannel":     {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.channel()} }},
	"ListDeliveries": {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.channel()} }},
	"CreateChannel":  {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.channelInput()} }},
	"UpdateChannel":  {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.channel(), w.channelInput()} }},
	"DeleteChannel":  {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.channel()} }},
	"TestChannel":    {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.channel()} }},

	// Flavors that are published to project red.
	"ListFlavors":  {permittedActors: actorsWithAnyRole, args: noArgs},
	"GetFlavor":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.flavor()} }},
	"CreateFlavor": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.flavorSpec()} }},
	"UpdateFlavor": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.flavor(), flavors.FlavorChange{Definition: w.flavorSpec()}}
	}},
	"DeleteFlavor": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.flavor()} }},
	"GrantFlavor":  {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.flavor(), w.blue} }},
	"RevokeFlavor": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.flavor(), w.red} }},

	// Device classes that are published to project red.
	"ListDeviceClasses": {permittedActors: actorsWithAnyRole, args: noArgs},
	"GetDeviceClass":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.deviceClass()} }},
	"CreateDeviceClass": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.deviceClassSpec()} }},
	"UpdateDeviceClass": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.deviceClass(), deviceclasses.DeviceClassChange{ClassDefinition: w.deviceClassSpec()}}
	}},
	"DeleteDeviceClass": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.deviceClass()} }},
	"GrantDeviceClass":  {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.deviceClass(), w.blue} }},
	"RevokeDeviceClass": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.deviceClass(), w.red} }},

	"VMRules": {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},

	// Requests of project red.
	"ListRequests":     {permittedActors: actorsWithAnyRole, args: readUseCase},
	"RequestsToDecide": {permittedActors: actorsWithAnyRole, args: noArgs},
	"GetRequest":       {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.request()} }},
	"CreateRequest": {permittedActors: without(actorsUsingRed, "system"), args: func(w *authzFixture) []any {
		return []any{request.Input{ProjectID: w.red, Kind: request.Pool, Text: w.uniqueName("pool"), Reason: "r"}}
	}},
	"RequestVM": {permittedActors: without(actorsUsingRed, "system"), args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.uniqueName("red"), Spec: smallSpec}, "r"}
	}},
	"VMNeedsApproval": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"ApproveRequest":  {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.request(), requests.Approval{PoolID: w.ownPool()}} }},
	"RefuseRequest":   {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.request(), requests.Refusal{Comment: "no"}} }},
	"WithdrawRequest": {permittedActors: "member", args: func(w *authzFixture) []any { return []any{w.request()} }},

	// Customization specs of project red.
	"CreateCustomization": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.customization()} }},
	"UpdateCustomization": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { in := w.customization(); return []any{w.addCustomization(in).ID, in} }},
	"DeleteCustomization": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.addCustomization(w.customization()).ID} }},
	"GetCustomization":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.addCustomization(w.customization()).ID} }},
	"ListCustomizations":  {permittedActors: actorsWithAnyRole, args: noArgs},
	"GrantCustomization": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.publicCustomization(), w.red}
	}},
	"RevokeCustomization": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.publicCustomization(), fleet.ProjectID("")}
	}},
	"RequestPowerActionWith": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{w.vm(), fleet.ActShutdown, control.PowerOptions{}}
	}},
	"RequestPowerAction": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.vm(), fleet.ActShutdown} }},
	"CreateVM": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.uniqueName("red"), Spec: smallSpec}}
	}},
	"CreateVMWithTask": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.uniqueName("red"), Spec: smallSpec}}
	}},
	"DeleteVM": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.vm(), false, ""} }},
	"GetVM":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"UpdateVM": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{w.vm(), control.UpdateVM{Labels: map[string]string{"a": "b"}}}
	}},
	"PlanVM": {permittedActors: without(actorsUsingRed, "system"), args: func(w *authzFixture) []any {
		return []any{w.vm(), control.UpdateVM{Labels: map[string]string{"a": "b"}}}
	}},
	"PlanNewVM": {permittedActors: without(actorsUsingRed, "system"), args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.uniqueName("red"), Spec: smallSpec}}
	}},
	"GetPlan": {permittedActors: onlyMia, args: func(w *authzFixture) []any { return []any{w.plan()} }},
	"PreviewVM": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.uniqueName("red"), Spec: smallSpec}}
	}},
	"PlannedRequest": {permittedActors: onlyMia, args: func(w *authzFixture) []any { return []any{w.plan()} }},
	"ExecutePlan":    {permittedActors: onlyMia, args: func(w *authzFixture) []any { return []any{w.plan()} }},
	"DetachDisk":     {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { id, disk := w.vmWithPartlyMissingDisk(); return []any{id, disk} }},
	"ReplaceDisk": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, disk := w.vmWithPartlyMissingDisk()
		return []any{id, disk, control.NewDisk{Volume: w.uniqueName("new") + ".qcow2", SizeBytes: 1 << 20}}
	}},
	"GrowDisk": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		return []any{id, disk, control.GrowDisk{SizeBytes: 2 << 30}}
	}},
	"MoveDisk": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		return []any{id, disk, control.MoveDisk{PoolID: w.local}}
	}},
	"TakeSnapshot": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		return []any{id, control.NewSnapshot{Name: "before"}}
	}},
	"RevertSnapshot": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, snapshot := w.vmWithSnapshots()
		return []any{id, snapshot, control.RevertSnapshot{}}
	}},
	"DeleteSnapshot":    {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { id, snapshot := w.vmWithSnapshots(); return []any{id, snapshot, true} }},
	"ConsolidateVM":     {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { id, _ := w.vmWithSnapshots(); return []any{id} }},
	"SnapshotSchedules": {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"AddSnapshotSchedule": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		return []any{id, hourlySchedule}
	}},
	"EditSnapshotSchedule": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, schedule := w.vmWithSchedule()
		return []any{id, schedule, hourlySchedule}
	}},
	"DeleteSnapshotSchedule":     {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { id, schedule := w.vmWithSchedule(); return []any{id, schedule} }},
	"UnfinishedSnapshotJobKinds": {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"CloneName":                  {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"ExportVM": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		w.execSQL(`DELETE FROM exports`) // the number of exports per project is limited
		return []any{w.stoppedVMWithDisk(), control.NewExport{Format: "ova"}}
	}},
	"ListExports":    {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"GetExport":      {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.export()} }},
	"DeleteExport":   {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.export()} }},
	"DownloadExport": {permittedActors: without(actorsUsingRed, "system"), args: func(w *authzFixture) []any { return []any{w.export()} }},
	"ImageOfDisk": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		w.execSQL(`UPDATE vms SET status = '{"power":"stopped"}' WHERE id = $1`, id)
		return []any{id, disk, control.DiskImage{Name: w.uniqueName("image")}}
	}},
	"CreateVMs": {permittedActors: without(actorsUsingRed, "system"), args: func(w *authzFixture) []any {
		return []any{control.CreateVMs{CreateVM: control.CreateVM{ProjectID: w.red, Name: w.uniqueName("many") + "-{n}", Spec: smallSpec}, BulkNames: vmedit.BulkNames{Count: 2}}}
	}},

	// Templates of project red.
	"AddTemplate": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{control.NewTemplate{Name: w.uniqueName("template"), TemplateSource: w.vmWithoutDisks()}}
	}},
	"AddTemplateVersion": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.vmWithoutDisks()} }},
	"EditTemplate": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{w.template().TemplateID, control.EditTemplate{Description: new("tidy")}}
	}},
	"DeprecateTemplateVersion": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.template(), true} }},
	"DeleteTemplateVersion":    {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { of := w.template(); return []any{of, string(of.TemplateID)} }},
	"DeleteTemplate":           {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { id := w.template().TemplateID; return []any{id, string(id)} }},
	"GetTemplate":              {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.template().TemplateID} }},
	"ListTemplates":            {permittedActors: actorsWithAnyRole, args: readUseCase},
	"GrantTemplate":            {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.blue} }},
	"RevokeTemplate":           {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.red} }},
	"MigrateVM": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		w.execSQL(`UPDATE vms SET spec = spec || '{"power":"stopped"}', status = status || '{"power":"stopped"}' WHERE id = $1`, id)
		return []any{id, control.MigrateVM{HostID: w.h2}}
	}},
	"MigrationTargets":         {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { id, _ := w.vmWithDisk(); return []any{id} }},
	"MigrationInProgress":      {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"MoveTargets":              {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { id, disk := w.vmWithDisk(); return []any{id, disk} }},
	"DiskMigrationsInProgress": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"AcceptDrift": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, _ := w.vmWithPartlyMissingDisk()
		return []any{id, map[string]string{"cpus": "2 vCPUs"}}
	}},
	"Reapply": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, _ := w.vmWithPartlyMissingDisk()
		return []any{id, []string{}}
	}},
	"IgnoreDrift": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, _ := w.vmWithPartlyMissingDisk()
		return []any{id, map[string]string{"cpus": "2 vCPUs"}}
	}},
	"ShowDrift": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id, _ := w.vmWithPartlyMissingDisk()
		w.execSQL(`UPDATE vms SET ignored_drift = '[{"field": "cpus", "actual": "2 vCPUs"}]' WHERE id = $1`, id)
		return []any{id, []string{"cpus"}}
	}},
	"RenewVM":  {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.expiredVM(), w.renewal()} }},
	"RenewVMs": {permittedActors: actorsUsingAnyProject, args: func(w *authzFixture) []any { return []any{[]fleet.VMID{}, flavors.Renewal{}} }},

	"DeleteVMPermanently": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id := w.vm()
		return []any{id, w.nameOf(id)}
	}},
	"ListRecycleBin":  {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.recycledVM(); return []any{fleet.Query{}} }},
	"GetRecycled":     {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.recycledVM()} }},
	"RestoreRecycled": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.recycledVM(), recycling.RestoreVM{}} }},
	"PurgeRecycled": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id := w.recycledVM()
		return []any{id, w.nameOf(id)}
	}},
	"PurgeAllRecycled": {permittedActors: actorsUsingAnyProject, args: func(w *authzFixture) []any { return []any{[]fleet.VMID{}} }},
	"BinSettings":      {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"SetFleetBin":      {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{bin.Settings{}} }},
	"SetProjectBin":    {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.red, bin.Overrides{}} }},

	"SetVMProtection": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.vm(), control.ProtectVM{Protected: true}} }},
	"VMGuest":         {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"SendGuestRequest": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id := w.vm()
		w.execSQL(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, id)
		return []any{id, control.GuestRequest{Action: fleet.ActGuestPassword, User: "root", Password: "violet lantern"}}
	}},
	"VMRetry":     {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"VMHistory":   {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"VMMetrics":   {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm(), query.MetricRange{}} }},
	"VMMeter":     {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"OpenConsole": {permittedActors: without(actorsUsingRed, "system"), args: func(w *authzFixture) []any { return []any{w.vm()} }},
	// RunOnce itself needs only an account: the use cases that it runs check their own permissions.
	"RunOnce": {permittedActors: without(signedInActors, "system") + " system?", args: func(w *authzFixture) []any {
		do := func(context.Context) ([]byte, error) { return []byte("answer"), nil }
		return []any{control.IdempotencyKey{Name: w.uniqueName("key"), Request: []byte("request"), Secret: auth.NewSecret(auth.TokenPrefix)}, do}
	}},
	"ListConsoleSessions":    {permittedActors: actorsWithAnyRole, args: readUseCase},
	"GetConsoleSession":      {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { _, id := w.consoleSession(); return []any{id} }},
	"OpenConsoleSessions":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { vm, _ := w.consoleSession(); return []any{vm} }},
	"ReportConsoleSession":   {permittedActors: onlyMia, args: func(w *authzFixture) []any { _, id := w.consoleSession(); return []any{id, consoles.Traffic{}} }},
	"CloseConsoleSession":    {permittedActors: onlyMia, args: func(w *authzFixture) []any { _, id := w.consoleSession(); return []any{id, consoles.Traffic{}, ""} }},
	"EndConsoleSession":      {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { _, id := w.consoleSession(); return []any{id} }},
	"AskForKeyboard":         {permittedActors: onlyMia, args: func(w *authzFixture) []any { _, id := w.consoleSession(); return []any{id} }},
	"GiveKeyboard":           {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { _, id := w.consoleSession(); return []any{id} }},
	"EndLostConsoleSessions": {permittedActors: onlyPortal, args: noArgs},
	"RedeemConsole": {permittedActors: onlyMia, args: func(w *authzFixture) []any {
		id, secret := w.console()
		return []any{id, secret}
	}},
	"GetTask": {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{fleet.TaskID(w.job("queued"))} }},
	"GuestRun": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		id := w.vm()
		w.execSQL(`UPDATE vms SET spec = spec || '{"policy":{"guestExec":true}}', status = status || '{"guest":{"agent":"answers"},"policy":{"guestExec":true}}' WHERE id = $1`, id)
		task, err := w.SendGuestRequest(w.t.Context(), chief, id, control.GuestRequest{Action: fleet.ActExec, Program: "ls"})
		if err != nil {
			w.t.Fatal(err)
		}
		return []any{task.ID}
	}},
	"CancelTask": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{fleet.TaskID(w.job("queued"))} }},

	// Lists, which contain only the objects that the actor may see.
	"Complete":       {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.vm(); return []any{"vms", "red"} }},
	"ListProjects":   {permittedActors: actorsWithAnyRole, args: readUseCase},
	"ListTasks":      {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.job("queued"); return readUseCase(w) }},
	"ListVMs":        {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"ListVMRows":     {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"ListVMsBriefly": {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"RecentVMUse":    {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}} }},
	"ExpiringVMs":    {permittedActors: actorsWithAnyRole, args: func(*authzFixture) []any { return nil }},
	"TopConsumers":   {permittedActors: actorsWithAnyRole, args: func(*authzFixture) []any { return nil }},
	"Overview":       {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.job("queued"); return nil }},
	"RunningTasks":   {permittedActors: actorsWithAnyRole, args: noArgs},
	"Search":         {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.vm(); return []any{"red", 8} }},
	"Layout":         {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{fleet.Query{}, query.TreeQuery{View: "vms"}} }},
	"Tree":           {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{query.TreeQuery{View: "vms"}} }},
	"VMTotals":       {permittedActors: actorsWithAnyRole, args: noArgs},
	"EditVMs": {permittedActors: without(actorsUsingAnyProject, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, vmedit.BulkEdit{Fields: map[string]json.RawMessage{"cpus": []byte("3")}}}
	}},
	"PreviewEdit": {permittedActors: without(actorsUsingAnyProject, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, vmedit.BulkEdit{Fields: map[string]json.RawMessage{"cpus": []byte("3")}}}
	}},
	"DeleteVMs": {permittedActors: without(actorsUsingAnyProject, "system"), args: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}, control.VMDeletion{}} }},
	"SnapshotVMs": {permittedActors: without(actorsUsingAnyProject, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, control.NewSnapshot{Name: "a"}}
	}},
	"MigrateVMs": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, control.MigrateVM{HostID: w.h2}}
	}},
	"PlanMigrations": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}} }},
	"VMsByID":        {permittedActors: without(actorsUsingAnyProject, "system"), args: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}} }},
	// Permission is checked for each VM: see TestBulkActionChecksPermissionPerVM.
	"RequestPowerActionsWith": {permittedActors: without(actorsUsingAnyProject, "system"), args: func(w *authzFixture) []any {
		return []any{fleet.ActShutdown, []fleet.VMID{w.vm()}, control.PowerOptions{}}
	}},
	"RequestPowerActions": {permittedActors: without(actorsUsingAnyProject, "system"), args: func(w *authzFixture) []any {
		return []any{fleet.ActShutdown, []fleet.VMID{w.vm()}}
	}},

	// Users and projects.
	"CreateJoinToken": {permittedActors: actorsManagingUsers, args: func(*authzFixture) []any { return []any{fleet.HostID("")} }},
	"CreateProject":   {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{identity.ProjectInput{Name: w.uniqueName("project")}} }},
	"CreateUser":      {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{identity.UserInput{Name: w.uniqueName("user")}} }},
	"DeleteProject":   {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.createProject(w.uniqueName("project"))} }},
	"DeleteUser":      {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.someUser()} }},
	"GetProject":      {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"GetUser":         {permittedActors: onlyMia + " " + actorsManagingUsers, args: func(*authzFixture) []any { return []any{fleet.UserID("mia")} }},
	"ListJoinTokens":  {permittedActors: actorsManagingUsers, args: readUseCase},
	"ProjectUsage":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"ProjectUsages":   {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{[]fleet.ProjectID{w.red}} }},
	"UsageHistory":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"SetQuota":        {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.red, quota.Quota{}} }},
	"ListMembers":     {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"ListUsers":       {permittedActors: actorsManagingUsers, args: readUseCase},
	"RevokeJoinToken": {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.createJoinToken().ID} }},
	"SetMember":       {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.red, w.someUser(), fleet.RoleViewer} }},
	"SetPassword":     {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.someUser(), "violet lantern harbour"} }},
	"UpdateProject":   {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any { return []any{w.blue, identity.ProjectInput{Name: "blue"}} }},
	"UpdateUser": {permittedActors: actorsManagingUsers, args: func(w *authzFixture) []any {
		return []any{w.someUser(), identity.UserInput{Name: w.uniqueName("user")}}
	}},

	// The actor's own account.
	"ChangePassword": {permittedActors: without(signedInActors, "system"), args: func(*authzFixture) []any { return []any{goodPassword, "violet lantern harbour", false} }},
	"CreateToken":    {permittedActors: without(signedInActors, "newcomer", "system"), args: func(*authzFixture) []any { return []any{"a token", time.Hour} }},
	"DeleteToken": {permittedActors: onlyMia, args: func(w *authzFixture) []any {
		return []any{fleet.TokenID(w.insertOwnedByMia(`INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, 'mia', 'her own', convert_to($1, 'UTF8'))`))}
	}},
	"DeleteView": {permittedActors: onlyMia, args: func(w *authzFixture) []any {
		return []any{fleet.ViewID(w.insertOwnedByMia(`INSERT INTO saved_views (id, user_id, list, name, query) VALUES ($1, 'mia', 'vms', $1, '')`))}
	}},
	"ListTokens": {permittedActors: signedInActors, args: readUseCase},
	"ListViews":  {permittedActors: signedInActors, args: func(*authzFixture) []any { return []any{"vms"} }},
	"SaveView":   {permittedActors: without(signedInActors, "system"), args: func(*authzFixture) []any { return []any{"vms", "mine", "filter=state:running"} }},
	"CPUModels":  {permittedActors: actorsWithAnyRole, args: noArgs},
	"WatchKeys": {permittedActors: signedInActors, args: func(w *authzFixture) []any {
		return []any{[]string{"vm:" + string(w.vm()), "host:" + string(w.h1), "tasks"}}
	}},

	// Authentication.
	"ActorOfToken": {
		permittedActors: everybody,
		args: func(w *authzFixture) []any {
			secret := auth.NewSecret(auth.TokenPrefix)
			w.execSQL(`INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, 'wes', 'his', $2)`, fleet.NewID[fleet.TokenID](), auth.HashSecret(secret))
			return []any{secret}
		},
		badArgs: func(*authzFixture) []any { return []any{auth.NewSecret(auth.TokenPrefix)} },
	},
	"JoinHost": {
		permittedActors: everybody,
		args: func(w *authzFixture) []any {
			return []any{w.createJoinToken().Secret, wire.JoinRequest{Name: w.uniqueName("joined"), HostUUID: string(fleet.NewID[fleet.HostID]()), CSR: someCSR()}}
		},
		badArgs: func(w *authzFixture) []any {
			return []any{auth.NewSecret("qxj_"), wire.JoinRequest{Name: w.uniqueName("joined"), CSR: someCSR()}}
		},
	},
	"SignIn": {
		permittedActors: everybody,
		args:            func(w *authzFixture) []any { return []any{string(w.someUser()), goodPassword} },
		badArgs: func(w *authzFixture) []any {
			w.execSQL(`DELETE FROM login_throttle`)
			return []any{string(w.someUser()), "not the password"}
		},
	},

	// Security groups of project red. TestTenantsUseOnlyOwnAndGlobalSecurityGroups tests global groups.
	"ApplyPortGroupDefaults":         {permittedActors: onlyPortal, args: noArgs},
	"AssignAndReleaseSecurityGroups": {permittedActors: onlyPortal, args: noArgs},
	"ListSecurityGroups":             {permittedActors: actorsWithAnyRole, args: readUseCase},
	"SharedSecurityGroups":           {permittedActors: actorsWithAnyRole, args: noArgs},
	"SecurityGroupsForProject":       {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"GetSecurityGroup":               {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.redSecurityGroup()} }},
	"NICFilterStates":                {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"CheckConnection": {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any {
		return []any{connectivity.ConnectionQuery{From: connectivity.ConnectionEnd{VMID: w.vmWithNIC()}, To: connectivity.ConnectionEnd{Address: "10.0.0.1"}, Protocol: secgroup.ICMP}}
	}},
	"CreateSecurityGroup": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{network.CreateSecurityGroup{ProjectID: w.red, Name: w.uniqueName("group")}}
	}},
	"UpdateSecurityGroup": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		name := w.uniqueName("renamed")
		return []any{w.redSecurityGroup(), network.UpdateSecurityGroup{Name: &name}}
	}},
	"DeleteSecurityGroup":       {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.redSecurityGroup()} }},
	"RetrySecurityGroup":        {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any { return []any{w.redSecurityGroup()} }},
	"RefreshCounters":           {permittedActors: onlyPortal, args: noArgs},
	"CountChangedVMs":           {permittedActors: onlyPortal, args: func(w *authzFixture) []any { return []any{[]fleet.VMID(nil), []fleet.HostID{w.h1}} }},
	"RecoverExpiredJobs":        {permittedActors: onlyPortal, args: noArgs},
	"DeleteExpiredRows":         {permittedActors: onlyPortal, args: noArgs},
	"PurgeOverdueVMs":           {permittedActors: onlyPortal, args: noArgs},
	"ExpireVMs":                 {permittedActors: onlyPortal, args: noArgs},
	"RunSnapshotSchedules":      {permittedActors: onlyPortal, args: noArgs},
	"DeleteTemporarySnapshots":  {permittedActors: onlyPortal, args: noArgs},
	"RecordBrokenRules":         {permittedActors: onlyPortal, args: noArgs},
	"CancelStaleUploads":        {permittedActors: onlyPortal, args: noArgs},
	"DeleteStaleExports":        {permittedActors: onlyPortal, args: noArgs},
	"RecordProjectDays":         {permittedActors: onlyPortal, args: noArgs},
	"RecountUse":                {permittedActors: onlyPortal, args: noArgs},
	"ExpireRequests":            {permittedActors: onlyPortal, args: noArgs},
	"SumMetrics":                {permittedActors: onlyPortal, args: noArgs},
	"RollUpMetrics":             {permittedActors: onlyPortal, args: noArgs},
	"RotateAuditPartitions":     {permittedActors: onlyPortal, args: noArgs},
	"ForgetAgentAddress":        {permittedActors: onlyPortal, args: noArgs},
	"CheckDatabasePeriodically": {permittedActors: "system?", args: noArgs}, // not called as the system, because it returns only when its context ends
	"Ready":                     {permittedActors: onlyPortal, args: noArgs},
	"SetAgentAddress":           {permittedActors: onlyPortal, args: noArgs},
	"AgentAddress":              {permittedActors: onlyPortal, args: noArgs},
}
