package db_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/channel"
	"quantix/internal/console"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
	"quantix/internal/hostcommand"
	"quantix/internal/request"
	"quantix/internal/schedules"
	"quantix/internal/testkit"
)

// IDs of rows that fillTables creates.
const (
	someHostID    = "00000000-0000-7000-8000-000000000001"
	someProjectID = "00000000-0000-7000-8000-000000001001"
	somePoolID    = "00000000-0000-7000-8000-000000002001"
	someNetworkID = "00000000-0000-7000-8000-000000003000"
	someVMID      = "00000000-0000-7000-8000-000001000200" // a VM on someHostID
	someTaskID    = "ffff0000-0000-7000-8000-000000000007" // created in the far future
	someUserID    = "user-7"
	someID        = "id-7" // ID of any other kind of object
)

// blockLimits lists the statements that may read more than maxBlocksByIndex, with the reason.
var blockLimits = map[string]struct {
	blocks int
	why    string
}{
	"AddVM":                 {400, "adds a VM to each of its indexes"},
	"CheckQuota":            {5500, "sums the 2,000 VMs of a project; without VACUUM, an index scan reads each row too"},
	"QuotaExcess":           {5500, "sums the 2,000 VMs of a project; without VACUUM, an index scan reads each row too"},
	"CountDiscovered":       {4000, "counts all discovered VMs, each with a look for a VM of Quantix with its ID"},
	"CountOpenJobs":         {4000, "counts 3,000 jobs for the metrics"},
	"CountOpenAlarms":       {2000, "counts 5,000 open alarms for the metrics"},
	"CountOpenTasks":        {4000, "counts 3,000 tasks for the metrics"},
	"ExposedVMs":            {5000, "reads all VMs"},
	"ReportAssignments":     {500, "deletes 50 networks"},
	"DriftedAssignments":    {2000, "reads each pool of each host"},
	"RotateAuditPartitions": {2000, "reads the system catalog"},
	"KeepMetrics":           {2000, "reads the system catalog"},
	"AssignedPools":         {1000, "reads the assignments of all hosts, after changes"},
	"AssignedNetworks":      {1000, "reads the assignments of all hosts, after changes"},
	"AssignedBeside":        {2000, "reads each host of a pool"},
	"VolumesNamed":          {1000, "reads the report of each host on a pool"},
	"LabelGroups":           {4000, "counts the 2,000 VMs of a project"},
	"DisksToCome":           {5000, "reads growing disks of VMs with pending changes"},
	"ReportAbsentVMs":       {6000, "changes the other 99 VMs of a host, in each of their indexes"},
	"VolumeOwners":          {800, "scans the pending list of the GIN index on specs"},
	"VolumeSharers":         {800, "scans the pending list of the GIN index on specs"},
	"CountOnGroups":         {800, "scans the pending list of the GIN index on specs"},
	"GroupNeeded":           {800, "scans the pending list of the GIN index on specs"},
	"CountOnNetwork":        {800, "scans the pending list of the GIN index on specs"},
	"VolumeNameReserved":    {800, "scans the pending list of the GIN index on specs"},
	"VolumeNameInUse":       {800, "scans the pending list of the GIN index on specs"},
	"VolumeInUse":           {2000, "scans the pending list of the GIN index on specs three times"},
	"ImagesCreated":         {800, "scans the pending list of the GIN index on specs"},
	"FreeImageName":         {800, "reads the names of global images"},
	"VMsCreatedFrom":        {800, "scans the pending list of the GIN index on specs"},
	"OverlaysOn":            {800, "scans the pending list of the GIN index on specs"},
	"HostsBelowModel":       {400, "reads the status of each host of a cluster"},
	"ActiveInCluster":       {800, "looks up each pool and network on the hosts of a cluster"},
	"LogHostLiveness":       {4000, "compares all hosts with their last liveness"},
	"PruneEvents":           {20000, "deletes 1,000 events"},
	"AlarmSampleObjects":    {800, "reads each host of a pool"},
	"NewestHostSamples":     {4000, "reads the newest sample of each online host"},
	"NewestMetricSamples":   {4000, "reads the newest samples of each online host"},
	"ProjectsOfVMs":         {6000, "reads each VM, for a cache"},
	"RecordProjectDays":     {3000, "sums what the VMs of all projects use, once an hour"},
	"HostTaskMarks":         {2000, "reads the tasks of some kinds of all hosts"},
	"NotifyingChannels":     {6000, "reads and locks 1,000 channels with the roles of their users"},
	"DueDeliveries":         {1500, "reads 100 waiting messages that are due, each with its channel"},
	"NewAlarmEvents":        {20000, "reads up to 20,000 events, each with its alarm"},
	"OpenAlarms":            {60000, "reads 5,000 open alarms, each with its host's session"},
	"PoolsToPredict":        {2000, "reads each pool of each host"},
	"RuleMates":             {4000, "reads the labels of 2,000 VMs of a project"},
	"DrivesWith":            {800, "scans the pending list of the GIN index on specs"},
	"VMsOfDeviceClass":      {800, "scans the pending list of the GIN index on specs"},
	"AvailableDevices":      {800, "reads the inventory of each host"},
	"CountDevicesOfClasses": {2000, "counts the devices of all classes"},
	"UsersOfDevices":        {6000, "scans the pending list of the GIN index on specs for each of 8 devices"},

	"DriftedVMs":                       {800, "plans the statement of a function"},
	"CriticalHostConditions":           {1500, "reads 40,000 conditions, all of them critical"},
	"EndHealthMatchesWithoutCondition": {12000, "looks up the condition of each of 2,000 open matches"},
	"ListHealthPolicies":               {2000, "counts the matches of a day"},
	"TrimHostEvents":                   {1000, "deletes 249 events"},
}

// argumentValue returns an argument that refers to an existing object. field is the argument's name, or "" for a single
// unnamed argument.
func (p plannedStatement) argumentValue(t *testing.T, field string, of reflect.Type, tenant bool) reflect.Value {
	t.Helper()
	v := reflect.New(of).Elem()
	if arguments, ok := argumentsByField[p.name+"."+field]; ok {
		v.Set(reflect.ValueOf(arguments))
		return v
	}
	if id, ok := map[reflect.Type]string{
		reflect.TypeFor[fleet.HostID](): someHostID, reflect.TypeFor[fleet.ClusterID](): string(fleet.DefaultClusterID), reflect.TypeFor[fleet.ProjectID](): someProjectID, reflect.TypeFor[fleet.PoolID](): somePoolID, reflect.TypeFor[fleet.NetworkID](): someNetworkID,
		reflect.TypeFor[fleet.VMID](): someVMID, reflect.TypeFor[fleet.TaskID](): someTaskID, reflect.TypeFor[fleet.JobID](): someTaskID, reflect.TypeFor[fleet.UserID](): someUserID,
		reflect.TypeFor[fleet.Subject](): "vm:" + someVMID, reflect.TypeFor[fleet.ImageID](): someID, reflect.TypeFor[fleet.ImageVersionID](): someID, reflect.TypeFor[fleet.TemplateID](): someID, reflect.TypeFor[fleet.TemplateVersionID](): someID, reflect.TypeFor[schedules.ScheduleID](): someID, reflect.TypeFor[fleet.StartImageID](): someID, reflect.TypeFor[fleet.AlarmID](): someID, reflect.TypeFor[channel.ID](): someID, reflect.TypeFor[flavor.ID](): someID, reflect.TypeFor[channel.DeliveryID](): someID, reflect.TypeFor[fleet.AlarmRuleID](): someID, reflect.TypeFor[fleet.JobKind](): "vm.apply", reflect.TypeFor[console.Kind](): "vnc", reflect.TypeFor[fleet.Role](): "viewer",
	}[of]; ok {
		v.SetString(id)
		return v
	}
	switch {
	case of == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Now()))
	case of == reflect.TypeFor[time.Duration]():
		v.Set(reflect.ValueOf(fleet.Freshness))
	case of == reflect.TypeFor[[]byte]():
		v.SetBytes([]byte("id-7"))
	case of.Kind() == reflect.Bool:
		v.SetBool(field != "AllProjects" || !tenant)
	case of.Kind() == reflect.String:
		v.SetString(textArgument(field))
	case of.Kind() == reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		v.Elem().Set(p.argumentValue(t, field, of.Elem(), tenant))
	case of.Kind() == reflect.Slice:
		one := p.argumentValue(t, strings.TrimSuffix(field, "s"), of.Elem(), tenant)
		v.Set(reflect.Append(v, one))
	case of.Kind() == reflect.Struct && of.PkgPath() == "quantix/db":
		for i := range of.NumField() {
			v.Field(i).Set(p.argumentValue(t, of.Field(i).Name, of.Field(i).Type, tenant))
		}
	case of.Kind() == reflect.Int16 || of.Kind() == reflect.Int32 || of.Kind() == reflect.Int64:
		v.SetInt(1)
	case of.Kind() == reflect.Float32 || of.Kind() == reflect.Float64:
		v.SetFloat(1)
	}
	return v
}

// textArgument returns the value of a string argument by its name.
func textArgument(field string) string {
	for _, w := range []struct{ word, text string }{
		{"Host", someHostID}, {"Project", someProjectID}, {"Pool", somePoolID}, {"Network", someNetworkID}, {"VM", someVMID}, {"Id", someVMID}, {"ID", someID},
	} {
		if strings.HasPrefix(field, w.word) || strings.HasSuffix(field, w.word) {
			return w.text
		}
	}
	switch field {
	case "Noun":
		return "pool"
	case "Kind":
		return "vm.start"
	}
	return someID
}

// argumentsByField has the arguments that cannot be derived from their names and types.
var argumentsByField = map[string]any{
	"AddAuthority.KeyPem": (*string)(nil), "AddHost.ID": fleet.HostID("new"), "AddHost.Name": "new", "AddHostSession.": fleet.HostID("bare"), "DropHost.": fleet.HostID("bare"), "AddJoinToken.ID": fleet.JoinTokenID("new"),
	"AddJoinToken.Hash": []byte("new"), "AddPool.ID": fleet.PoolID("new"), "AddProject.ID": fleet.ProjectID("new"), "DeleteProject.": fleet.ProjectID("bare"),
	"AddSteps.ID": new(fleet.TaskID("new")), "AddSteps.Ids": []string{"new-1"}, "AddTicket.Hash": []byte("new"), "AddUser.ID": fleet.UserID("new"), "AddUser.Name": "new",
	"AddCluster.ID": fleet.ClusterID("new"), "AddCluster.Name": "new", "ChangeCluster.Name": "another", "DeleteCluster.": fleet.ClusterID("bare"), "HostsBelowModel.Cluster": string(fleet.DefaultClusterID),
	"AddExport.Format": "ova", "AddExport.ID": fleet.ExportID("new"),
	"AddVM.ID": fleet.VMID("new"), "AddVM.Labels": map[string]string{}, "ChangeVM.Labels": map[string]string{}, "NoteDone.ID": fleet.TaskID("new"),
	"DiskMoved.Disk": []byte(`{"poolId":"` + somePoolID + `","volume":"none"}`), "DiskMoved.Moved": []byte(`{}`),
	"AddTransfer.ToHost": fleet.HostID("00000000-0000-7000-8000-000000000002"), "NoteLeft.Disks": []byte(`[]`), "VMLeft.Disks": []byte(`[]`),
	"AddPlan.ID": fleet.PlanID("new"), "AddSchedule.ID": schedules.ScheduleID("new"), "AddPlan.Asked": []byte(`{}`), "QueuePlan.ID": fleet.JobID("new"), "AddTaskEdit.Edit": []byte(`{}`), "AddStepInputs.Ids": []string{"ffff0000-0000-7000-8000-000000000009"}, "AddStepInputs.Inputs": [][]byte{[]byte(`{}`)}, "ForgetVM.Status": []byte(`{}`), "AddTaskEdit.TaskID": fleet.TaskID("ffff0000-0000-7000-8000-000000000009"),
	"QueueConsole.ID": fleet.JobID("new"), "QueueUploadOpen.ID": fleet.JobID("new"), "QueueVolumeRead.ID": fleet.JobID("new"), "AwaitVolume.JobID": "aside-1", "AddUpload.ID": fleet.UploadID("new"), "AwaitUploadHost.PairID": fleet.PairID("new"), "QueueJob.ID": "new", "JoinQueue.ID": fleet.JobID("new"), "JoinQueue.Child": (*string)(nil), "SaveView.ID": fleet.ViewID("new"), "Assign.ObjectID": somePoolID,
	"AddNetwork.ID": fleet.NetworkID("new"), "AddNetwork.Name": "new", "MarkNetworkDeleted.": fleet.NetworkID("defined"), "EndNetwork.": "defined", "LockNetwork.": fleet.NetworkID("defined"),
	"SetSelector.ObjectID": somePoolID, "SelectorOf.ObjectID": somePoolID, "DropSelector.ObjectID": somePoolID, "ExcludeHosts.ObjectID": somePoolID, "IncludeAllHosts.ObjectID": somePoolID, "IncludeHosts.ObjectID": somePoolID, "ExcludeReleasedHosts.ObjectID": somePoolID, "LabelledWithout.ObjectID": somePoolID, "LeftOut.ObjectID": somePoolID, "AssignedBeside.ObjectID": somePoolID, "HostsLabelled.ObjectID": somePoolID, "AssignmentsNotHealthy.ObjectID": somePoolID,
	"SetSelector.Pairs": map[string]string{"rack": "8"}, "LabelledWithout.Most": int32(200), "ExcludeHosts.Hosts": []string{someHostID}, "ExcludeHosts.Whys": []string{"other"}, "IncludeHosts.Hosts": []string{someHostID},
	"HostsLabelled.Pairs": []byte(`{"rack": "7"}`), "HostsLabelled.Keys": []string{"ssd"},
	"AddTemplate.ID": fleet.TemplateID("new"), "AddTemplate.Name": "new", "AddTemplateVersion.ID": fleet.TemplateVersionID("new"), "ChangeTemplate.Name": "another",
	"AddTemplateImage.ID": fleet.ImageID("new"), "AddTemplateImage.Name": "new", "AddVMOrder.Request": []byte("{}"), "VMsCreatedFrom.Versions": []string{someID},
	"AddStartImage.ID": fleet.StartImageID("new"), "AddStartImage.Name": "new", "AddStartImage.Most": int64(10000), "ChangeStartImage.Name": "another", "AddImage.ID": fleet.ImageID("new"), "AddImage.Name": "new", "AddImageVersion.ID": fleet.ImageVersionID("new"), "AddStep.ID": fleet.JobID("new"), "WaitFor.Others": []string{},
	"AddNetworks.":               []byte(`[{"id": "new", "name": "new", "kind": "bridge"}]`),
	"EndJobs.Ids":                []string{someTaskID},
	"EndJobs.States":             []string{"done"},
	"SettleAssignments.Ids":      []string{somePoolID},
	"SettleAssignments.Nouns":    []string{"pool"},
	"SettleAssignments.Statuses": []string{`{"state": "active"}`},
	"SettleVMs.Ids":              []string{someVMID},
	"SettleVMs.Statuses":         []string{`{"power": "stopped"}`},
	"AddTicket.FoundOn":          someHostID,
	"AddChannel.ID":              channel.ID("new"), "AddChannel.Name": "new", "AddChannel.UserID": (*fleet.UserID)(nil), "AddDelivery.ID": channel.DeliveryID("new"), "CountChannels.UserID": (*string)(nil),
	"CheckQuota.Grown": []byte(`{"snapshots": 1, "cpus": 1}`), "QuotaExcess.Grown": []byte(`{"snapshots": 1, "cpus": 1}`),
	"AddCustomization.ID": fleet.CustomizationID("new"), "AddCustomization.Name": "new", "ChangeCustomization.Name": "another",
	"AddFlavor.ID": flavor.ID("new"), "AddFlavor.Name": "new", "ChangeFlavor.Name": "another",
	"AddAlarmRule.ID": fleet.AlarmRuleID("new"), "AddAlarmRule.Name": "new", "ChangeAlarmRule.Name": "another",
	"AddDefaultAlarmRules.Ids": []string{"new-2"}, "AddDefaultAlarmRules.Names": []string{"new-2"}, "AddDefaultAlarmRules.Specs": []string{"{}"},
	"AddAlarms.Ids": []string{"new"}, "AddAlarms.Projects": []string{someProjectID}, "UpdateAlarms.Ids": []string{someID}, "ClearAlarms.Ids": []string{someID}, "ForgetAlarms.Ids": []string{someID},
	"AcknowledgeAlarms.Ids": []string{someID}, "SilenceAlarms.Ids": []string{someID},
	"Heartbeats.Loads":           []string{"null"},
	"LockResults.Ids":            []string{someTaskID},
	"RenewLeases.Ids":            []string{someTaskID},
	"ReportAssignments.Objects":  []byte(`[{"type": "pool", "id": "` + somePoolID + `", "status": {"state": "inactive"}}]`),
	"ReportAssignments.Networks": []byte(`[{"kind": "libvirt", "name": "default", "status": {"active": false}}]`),
	"ReportFilterCounts.Nics":    []string{`[{"id": "` + someVMID + `", "mac": "52:54:00:00:00:01", "sinceMs": 1, "rules": []}]`},
	"EndDelivery.NextMessage":    []byte(`{}`),
	"ReportGroups.Groups":        []byte(`[{"id": "id-7", "changed": "by somebody"}]`),
	"ReportDiscoveredVMs.Found":  []byte(`[{"id": "id-7", "name": "other", "status": {}}]`),
	"ReportVMs.Vms":              []byte(`[{"id": "` + someVMID + `", "generation": 1, "status": {"power": "stopped"}}]`),
	"VMsUnrecorded.Vms":          []byte(`[{"id": "` + someVMID + `", "stamped": 2}]`),
	"SightVMs.Seen":              []byte(`[{"id": "` + someVMID + `", "power": "stopped", "generation": 1, "proven": true}]`),
	"StrangeDomains.Domains":     []byte(`[{"id": "` + someVMID + `", "proof": ""}]`),
	"ReportGuests.Readings":      []string{"{}"},
	"EndGuestRun.Output":         []byte(`{}`),
	"RecycleVM.Days":             int32(7),
	"ProtectVM.Expiry":           fleet.ExpiresSoon,
	"SetExpiry.Expiry":           fleet.ExpiresSoon,
	"AddRequest.ID":              request.ID("01900000-0000-7000-8000-000000000001"), "DecideRequest.State": request.Approved,
	"AddRequest.Input": []byte("{}"), "RenewRequest.Input": []byte("{}"), "ExpireRequests.Age": 30 * 24 * time.Hour, "SweepRequests.Age": 365 * 24 * time.Hour,
	"AddArtifact.ID": hostcommand.ArtifactID("new"), "AddArtifact.Kind": hostcommand.ArtifactKind("diagnostics"), "AddArtifact.JobID": "new",
	"AddPortalTask.ID": fleet.TaskID("new"), "AddPortalTask.ParentID": (*fleet.TaskID)(nil), "TakeStep.ParentID": someTaskID,
	"AddDeviceClass.ID": fleet.DeviceClassID("new"), "AddDeviceClass.Name": "new", "ChangeDeviceClass.Name": "another", "AddDeviceClassMembers.Hosts": []string{someHostID},
	"AddHealthPolicy.ID": healthpolicy.ID("new"), "AddHealthPolicy.Name": "new", "ChangeHealthPolicy.Name": "another", "SetHealthAct.State": healthpolicy.ActState("held"),
	"AddHealthMatches.":     []byte(`[{"policyId": "id-7", "hostId": "` + someHostID + `", "check": "disks", "object": "disk-7", "code": "failing", "eventId": 1, "text": "t", "severity": "critical", "actions": {}, "dryRun": false, "momentary": false, "count": 1}]`),
	"AddHostEvents.Events":  []byte(`[{"ago": 0, "kind": "opened", "check_name": "disks", "object": "disk-7", "code": "failing", "severity": "critical", "text": "t", "repeats": 1, "actor": ""}]`),
	"EndHealthMatches.Keys": []byte(`[{"check": "disks", "object": "disk-7", "code": "failing"}]`), "EndHostConditions.Keys": []byte(`[{"check": "disks", "object": "disk-7", "code": "failing"}]`),
	"EndOtherHealthMatches.Matches": []byte(`[{"hostId": "` + someHostID + `", "check": "disks", "object": "disk-7", "code": "failing"}]`),
	"SetEventPolicies.":             []byte(`[{"id": 7, "names": ["policy 7"]}]`), "SetHealthMatchStates.": []byte(`[{"id": 7, "state": "active", "reason": "", "notified": false}]`),
	"SetHostChecks.Checks":         []byte(`[{"check": "check-7", "state": "failed"}]`),
	"SetHostConditions.Conditions": []byte(`[{"check_name": "disks", "object": "disk-7", "code": "failing", "severity": "critical", "text": "t", "ago": 0, "repeats": 1, "occurrence": false}]`),
	"RecordReading.Reading":        []byte(`{}`), "OpenConsoleSession.ID": fleet.PairID("new"), "OpenConsoleSession.UserID": someUserID,
	"OpenConsoleSession.HostID": "", "OpenConsoleSession.Subject": fleet.Subject("vm:" + someVMID),
	"TasksSeen.Ids":     []string{someTaskID},
	"EventsAfter.After": "00000000-0000-4000-8000-000000049000", "EventsAfter.Types": []string{"vm"}, "EventsAfter.OpenTypes": []string{"vm"}, "EventsAfter.Most": int32(500), "EventsAfter.Project": "",
}

// fillTables fills all tables. PostgreSQL does not update its statistics.
func fillTables(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testkit.SeedWithoutAnalyze(t, pool, plannedHosts, plannedVMs)
	testkit.KeepOnline(t, pool)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range fillStatements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

var fillStatements = []string{
	`INSERT INTO hosts (id, name) VALUES ('bare', 'bare')`,
	`INSERT INTO projects (id, name) VALUES ('bare', 'bare')`,
	`SET session_replication_role = replica`, // disables triggers
	`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) SELECT id, now() - n * interval '10 seconds', 10, 1, '' FROM hosts, generate_series(1, 10) n`,
	`INSERT INTO metric_chunks (tier, type, object_id, start, host_id, chunk) SELECT 1, 'vm', 'id-' || n, date_trunc('hour', now()), 'id-7', '' FROM generate_series(1, 20000) n`,
	`INSERT INTO metric_moves (vm_id, host_id) SELECT id, host_id FROM vms WHERE host_id IS NOT NULL`,
	`INSERT INTO channels (id, name, spec, target, signed) SELECT 'id-' || n, 'channel ' || n, '{"kind":"email","to":["a@example.org"]}', 'a@example.org', false FROM generate_series(1, 1000) n`,
	`INSERT INTO vm_use SELECT u.* FROM vms v CROSS JOIN LATERAL vm_use_of(v) u ON CONFLICT DO NOTHING`,
	`INSERT INTO project_quotas (project_id, limits, changed_by) SELECT p.id, '{"cpus": {"hard": 1000000}, "snapshots": {"hard": 1000000}}', 'me' FROM projects p`,
	`INSERT INTO device_classes (id, name) SELECT 'id-' || n, 'class ' || n FROM generate_series(1, 200) n`,
	`INSERT INTO device_class_members (class_id, host_id, device) SELECT 'id-' || h.nr % 200 + 1, h.id, 'pci/' || n FROM (SELECT id, row_number() OVER () AS nr FROM hosts) h, generate_series(1, 8) n`,
	`INSERT INTO device_class_grants (class_id, project_id, granted_by) SELECT c.id, p.id, 'me' FROM device_classes c, (SELECT id FROM projects ORDER BY id LIMIT 50) p`,
	`INSERT INTO device_allocations (vm_id, class_id, host_id, device) SELECT v.id, m.class_id, v.host_id, m.device FROM vms v JOIN device_class_members m ON m.host_id = v.host_id AND m.device = 'pci/' || right(v.id, 1) WHERE right(v.id, 2) < '10'`,
	`INSERT INTO health_policies (id, name, spec) SELECT 'id-' || n, 'policy ' || n, '{}' FROM generate_series(1, 200) n`,
	`INSERT INTO host_events (host_id, at, kind, check_name, object, code, severity, text, numbers, attributes)
		SELECT h.id, now() - n * interval '1 minute', 'opened', 'disks', 'disk-' || n, 'failing', 'critical', 't', '{}', '{}' FROM hosts h, generate_series(1, 250) n`,
	`INSERT INTO host_conditions (host_id, check_name, object, code, severity, text, numbers, attributes, since, last_at, occurrence)
		SELECT h.id, 'disks', 'disk-' || n, 'failing', 'critical', 't', '{}', '{}', now(), now(), false FROM hosts h, generate_series(1, 200) n`,
	`INSERT INTO host_checks (host_id, check_name, state) SELECT h.id, 'check-' || n, 'ok' FROM hosts h, generate_series(1, 10) n`,
	`INSERT INTO health_matches (policy_id, host_id, check_name, object, code, text, severity, actions, dry_run, momentary, ended_at)
		SELECT 'id-' || n, h.id, 'disks', 'disk-' || n, 'failing', 't', 'critical', '{}', false, false, CASE WHEN n % 20 > 0 THEN now() END FROM hosts h, generate_series(1, 200) n`,
	`INSERT INTO host_bmcs (host_id, spec, by_key, sealed) SELECT h.id, '{}', 'x', '' FROM hosts h`,
	`INSERT INTO host_artifacts (id, host_id, kind, job_id, task_id, created_by, size, summary, archive)
		SELECT h.id || n, h.id, 'diagnostics', h.id || n, 'id-' || n, 'me', 1, '{}', '' FROM hosts h, generate_series(1, 10) n`,
	`INSERT INTO console_sessions (id, subject, vm_id, uuid, project_id, vm_name, kind, user_id, user_name, session, address, opened_at, ended_at)
		SELECT 'id-' || n, 'vm:' || v.id, v.id, v.id, v.project_id, v.name, 'vnc', 'user-' || n % 5000, 'me', 's', 'a', now() - n * interval '1 second', CASE WHEN n % 10 > 0 THEN now() - n * interval '1 second' END
		FROM (SELECT id, project_id, name, row_number() OVER (ORDER BY id) AS n FROM vms LIMIT 20000) v`,
	`INSERT INTO flavors (id, name, cpus, memory_mib) SELECT 'id-' || n, 'flavor ' || n, 1, 1 FROM generate_series(1, 200) n`,
	`INSERT INTO flavor_grants (flavor_id, project_id, granted_by) SELECT f.id, p.id, 'me' FROM flavors f, (SELECT id FROM projects ORDER BY id LIMIT 50) p`,
	`INSERT INTO requests (id, project_id, user_id, requested_by, kind, name, reason, wanted, key, state, notified)
		SELECT 'id-' || n, p.id, 'user-' || n % 5000, 'me', 'pool', 'Pool', 'r', '{}', n::text, CASE WHEN n % 20 = 0 THEN 'open' ELSE 'approved' END, n % 1000 > 0
		FROM generate_series(1, 20000) n JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS i, count(*) OVER () AS all FROM projects) p ON p.i = n % p.all`,
	`INSERT INTO customizations (id, name, description, kind, variables, by_key, sealed, changed_by)
		SELECT 'id-' || n, 'spec ' || n, '', 'cloud-init', '{}', 'x', 'x', 'me' FROM generate_series(1, 200) n`,
	`INSERT INTO customization_grants (customization_id, project_id, granted_by)
		SELECT c.id, p.id, 'me' FROM customizations c, (SELECT id FROM projects ORDER BY id LIMIT 50) p`,
	`INSERT INTO deliveries (id, channel_id, message, summary, events, state, due_at, ended_at)
		SELECT 'id-' || n, 'id-' || (n % 1000 + 1), '{}', 'Host lost', 1, CASE WHEN n > 98000 THEN 'waiting' ELSE 'sent' END, now() + make_interval(secs => n - 98100), CASE WHEN n <= 98000 THEN now() END FROM generate_series(1, 100000) n`,
	`INSERT INTO events (key, type, object_id, name, project_id) SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'vm', 'id-' || n, 'x', 'id-7' FROM generate_series(1, 50000) n`,
	`INSERT INTO alarm_rules (id, name, spec) SELECT 'id-' || n, 'rule ' || n, '{}' FROM generate_series(1, 200) n`,
	`INSERT INTO alarms (id, rule_id, subject, subject_name, project_id, cause, severity, text, plain, raised_at, cleared_at)
		SELECT 'id-' || n, 'id-' || n % 200, 'vm:' || v.id, v.name, v.project_id, 'c', 'warning', 't', 'p', now(), CASE WHEN n % 4 > 0 THEN now() END
		FROM (SELECT id, name, project_id, row_number() OVER (ORDER BY id) AS n FROM vms LIMIT 20000) v`,
	`INSERT INTO alarm_events (alarm_id, kind) SELECT id, 'raised' FROM alarms`,
	`INSERT INTO pool_predictions (pool_id, host_id) SELECT pool_id, host_id FROM assignments WHERE pool_id IS NOT NULL`,
	`INSERT INTO users (id, name, role, password_hash) SELECT 'user-' || n, 'user-' || n, 'viewer', '' FROM generate_series(1, 5000) n`,
	`INSERT INTO project_members (project_id, user_id, role) SELECT p.id, 'user-' || n, 'member' FROM projects p, generate_series(1, 20) n`,
	`INSERT INTO tokens (id, user_id, name, hash) SELECT 'id-' || n, 'user-' || n % 5000, 'token', ('id-' || n)::bytea FROM generate_series(1, 20000) n`,
	`INSERT INTO browsers (id, user_id, hash) SELECT 'id-' || n, 'user-' || n % 5000, ('id-' || n)::bytea FROM generate_series(1, 20000) n`,
	`INSERT INTO sessions (token, data, expiry) SELECT 'id-' || n, '', now() + interval '1 day' FROM generate_series(1, 20000) n`,
	`INSERT INTO saved_views (id, user_id, list, name, query) SELECT 'id-' || n, 'user-' || n % 5000, 'vms', 'view ' || n, '' FROM generate_series(1, 20000) n`,
	`INSERT INTO guest_runs (task_id, vm_id, result) SELECT '00000000-0000-7000-b000-' || lpad(n::text, 12, '0'), '00000000-0000-7000-8000-' || lpad((1000200 + n % 1000)::text, 12, '0'), '{}' FROM generate_series(1, 20000) n`,
	`INSERT INTO tasks (id, parent_id, kind, subject, subject_name, created_by, pending, held, stage, stage_wait)
		SELECT '00000000-0000-7000-c000-' || lpad(n::text, 12, '0'), '00000000-0000-7000-c000-000000000000', 'vm.start', 'vm:' || n, 'vm', 'ann', true, true, n, 1 FROM generate_series(1, 2) n`,
	`INSERT INTO idempotency (user_id, key, request) SELECT 'user-' || n % 5000, 'id-' || n, '' FROM generate_series(1, 50000) n`,
	`INSERT INTO console_tickets (hash, console_id, vm_id, user_id, session, expires_at) SELECT ('id-' || n)::bytea, 'id-' || n, '` + someVMID + `', 'user-' || n % 5000, 'id-' || n, now() FROM generate_series(1, 20000) n`,
	`INSERT INTO login_throttle (key, failures, last_at) SELECT 'id-' || n, 1, now() FROM generate_series(1, 20000) n`,
	`INSERT INTO join_tokens (id, hash, created_by, expires_at) SELECT 'id-' || n, ('id-' || n)::bytea, 'me', now() + interval '1 day' FROM generate_series(1, 5000) n`,
	`INSERT INTO audit (actor, action, subject, name) SELECT 'me', 'vm.apply', 'vm:id-' || n % 10000, 'x' FROM generate_series(1, 50000) n`,
	`INSERT INTO found_vms (host_id, id, name, status) SELECT h.id, 'id-' || n, 'found-' || n, '{}' FROM hosts h, generate_series(1, 50) n`,
	`INSERT INTO networks (id, name, kind) SELECT 'id-' || n, 'net-' || n, 'bridge' FROM generate_series(1, 50) n`,
	`INSERT INTO networks (id, name, kind, spec) VALUES ('defined', 'defined', 'libvirt', '{"mode": "nat"}')`,
	`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', 'id-' || n, h.id, '{"active":true}' FROM hosts h, generate_series(1, 50) n`,
	`UPDATE hosts SET spec = jsonb_build_object('labels', jsonb_build_object('rack', (right(id, 3)::integer % 20)::text, 'ssd', 'yes')) WHERE id <> 'bare'`,
	`INSERT INTO selectors (noun, object_id, selector, pairs, keys) VALUES ('pool', '` + somePoolID + `', 'rack=7, ssd', '{"rack": "7"}', '{ssd}'), ('net', 'defined', 'rack=9', '{"rack": "9"}', '{}')`,
	`INSERT INTO left_out (noun, object_id, host_id, why) SELECT 'net', 'defined', id, 'taken' FROM hosts WHERE spec->'labels'->>'rack' = '9'`,
	`INSERT INTO start_images (id, name, url, file) SELECT 'id-' || n, 'start ' || n, 'https://example.org/a', 'a' FROM generate_series(1, 2000) n`,
	`INSERT INTO images (id, name, created_by) SELECT 'id-' || n, 'image ' || n, 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, created_by) SELECT 'id-' || n, 'id-' || n, 1, 'raw', 1, 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO image_copies (version_id, pool_id, volume, added_by) SELECT 'id-' || n, '` + somePoolID + `', 'id-' || n, 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO templates (id, project_id, name, created_by) SELECT 'id-' || n, '` + someProjectID + `', 'template ' || n, 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO template_versions (id, template_id, number, spec, created_by) SELECT 'id-' || n, 'id-' || n, 1, '{}', 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO snapshot_schedules (id, vm_id, spec, created_by, next_at, look_at) SELECT 'id-' || n, v.id, '{}', 'me', now() + n * interval '1 minute', now() + n * interval '1 minute'
	 FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM vms LIMIT 2000) v`,
	`INSERT INTO snapshot_runs (schedule_id, due, snapshot_id, task_id) SELECT s.id, now() - n * interval '1 day', s.id || n, '` + someTaskID + `' FROM snapshot_schedules s, generate_series(1, 6) n`,
	`INSERT INTO pool_grants (pool_id, project_id, granted_by) SELECT 'pool-' || n % 200, 'project-' || n / 200, 'me' FROM generate_series(1, 5000) n`,
	`INSERT INTO network_grants (network_id, project_id) SELECT 'id-' || n % 50, 'project-' || n / 50 FROM generate_series(1, 2000) n`,
	`INSERT INTO template_grants (template_id, granted_by) SELECT 'id-' || n, 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO images (id, template_id, name, created_by) SELECT 'own-' || n, 'id-' || n, 'template ' || n || ' disk 1', 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO vm_orders (task_id, request) SELECT 'id-' || n, '{}' FROM generate_series(1, 2000) n`,
	`INSERT INTO image_grants (image_id, granted_by) SELECT 'id-' || n, 'me' FROM generate_series(1, 2000) n`,
	`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) SELECT v.id, h.id, 'stopped', 1, true FROM vms v, hosts h WHERE v.host_id <> h.id AND right(h.id, 3) = '009' AND right(v.id, 1) = '3'`,
	`WITH made AS (
		INSERT INTO tasks (id, kind, subject, subject_name, host_id, project_id, created_by, user_id, state, ended_at)
		SELECT 'ffff0000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'vm.start', 'vm:00000000-0000-7000-8000-' || lpad((1000000 + n % 20000)::text, 12, '0'), 'v', '00000000-0000-7000-8000-' || lpad((1 + n % 200)::text, 12, '0'),
			'` + someProjectID + `', 'user-' || n % 5000, 'user-' || n % 5000, CASE WHEN n % 20 = 1 AND n <= 20000 THEN 'queued' WHEN n % 20 = 2 THEN 'running' WHEN n % 100 = 3 THEN 'failed' ELSE 'done' END,
			CASE WHEN n % 20 > 2 THEN now() - interval '2 days' + n * interval '1 second' END
		FROM generate_series(1, 40000) n RETURNING id, host_id, kind, subject, state, ended_at)
	INSERT INTO jobs (id, task_id, host_id, kind, subject, generation, state, attempt, lease_until, ended_at)
	SELECT id, id, host_id, kind, subject, 1, state, 1, CASE WHEN state = 'running' THEN now() + interval '1 hour' END, ended_at FROM made`,
	`INSERT INTO jobs (id, host_id, kind, subject, generation, state, ended_at) SELECT 'aside-' || n, '` + someHostID + `', 'console.open', 'vm:id-' || n, 1, 'done', now() FROM generate_series(1, 5000) n`,
	`INSERT INTO vm_plans (id, user_id, project_id, host_id, vm_id, vm, asked, asked_at) SELECT 'id-' || n, 'user-' || n % 5000, '` + someProjectID + `', '` + someHostID + `', 'id-' || n, '{}', '{}', now() - n * interval '1 second' FROM generate_series(1, 3500) n`,
	`INSERT INTO task_edits (task_id, edit) SELECT id, '{}' FROM tasks WHERE id LIKE 'ffff0000-%' ORDER BY id DESC LIMIT 5000`,
	`INSERT INTO uploads (id, task_id, user_id, host_id, pool_id, volume, size_bytes)
		SELECT id, id, user_id, host_id, '` + somePoolID + `', 'v', 1 FROM tasks WHERE id LIKE 'ffff0000-%' ORDER BY id LIMIT 10000`,
	`INSERT INTO exports (id, vm_id, project_id, task_id, pool_id, host_id, volume, format, created_by, expires_at)
		SELECT id, 'id-' || id, 'project-' || right(id, 3), id, CASE WHEN right(id, 2) = '00' THEN '` + somePoolID + `' ELSE 'pool-' || right(id, 3) END, host_id, 'v', 'ova', 'me', now() + interval '1 day' FROM tasks WHERE id LIKE 'ffff0000-%' ORDER BY id LIMIT 5000`,
	`INSERT INTO upload_pairs (pair_id, upload_id, session) SELECT id, id, 's' FROM uploads`,
	`RESET session_replication_role`,
}
