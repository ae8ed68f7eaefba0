package control_test

import (
	"time"

	"quantix/internal/bmc"
	"quantix/internal/control"
	"quantix/internal/control/alarms"
	"quantix/internal/control/health"
	"quantix/internal/control/healthpolicies"
	"quantix/internal/control/hostpower"
	"quantix/internal/control/hosts"
	"quantix/internal/control/network"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/upgrades"
	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/hostcommand"
)

// infraUseCases are the entries of useCases for hosts, storage, networks and images.
var infraUseCases = map[string]useCase{
	// Storage and networks belong to no project: members of every project may list them for new VMs.
	"GetNetwork":   {permittedActors: actorsWithAnyRole, args: definedNetworkArgs},
	"GetPool":      {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.nfs} }},
	"Images":       {permittedActors: actorsWithAnyRole, args: noArgs},
	"Media":        {permittedActors: actorsWithAnyRole, args: noArgs},
	"ISOs":         {permittedActors: actorsWithAnyRole, args: noArgs},
	"ListNetworks": {permittedActors: actorsWithAnyRole, args: readUseCase},
	"ListPools":    {permittedActors: actorsWithAnyRole, args: readUseCase},

	"ListPoolsInFull":    {permittedActors: actorsWithAnyRole, args: readUseCase},
	"ListNetworksInFull": {permittedActors: actorsWithAnyRole, args: readUseCase},

	"VMDefaults":               {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red, fleet.HostID(""), fleet.ClusterID("")} }},
	"VMDefaultsFromCandidates": {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red, []fleet.PoolView(nil), []fleet.NetworkView(nil)} }},
	"UsablePools":              {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.red} }},
	"UsableNetworks":           {permittedActors: actorsWithAnyRole, args: noArgs},
	"NetworksForVM":            {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"NetworksOnHost":           {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"VMAddresses":              {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"UsablePortGroups":         {permittedActors: actorsWithAnyRole, args: noArgs},
	"PortGroups":               {permittedActors: actorsWithAnyRole, args: definedNetworkArgs},
	"NetworkBrief":             {permittedActors: actorsWithAnyRole, args: definedNetworkArgs},
	"NetworkTopology":          {permittedActors: actorsWithAnyRole, args: definedNetworkArgs},
	"PoolMetrics":              {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.nfs, query.MetricRange{}} }},
	"FleetMetrics":             {permittedActors: actorsSeeingInfra, args: func(*authzFixture) []any { return []any{query.MetricRange{}} }},
	"ClusterMetrics":           {permittedActors: actorsSeeingInfra, args: func(*authzFixture) []any { return []any{fleet.DefaultClusterID, query.MetricRange{}} }},
	"PoolGrowth":               {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.nfs} }},
	"RecentHostUse":            {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{[]fleet.HostID{w.h1}} }},
	"HostMetrics":              {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1, query.MetricRange{}} }},
	"PoolCounts":               {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.nfs} }},
	"PoolMatrix":               {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"PoolNames":                {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{[]fleet.PoolID{w.nfs}} }},
	"PoolVMs":                  {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"PoolVolumes":              {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.nfs} }},

	// Clusters: members of every project may list them for new VMs.
	"AllClusters":  {permittedActors: actorsWithAnyRole, args: noArgs},
	"ClusterBrief": {permittedActors: actorsWithAnyRole, args: func(*authzFixture) []any { return []any{fleet.DefaultClusterID} }},
	"GetCluster":   {permittedActors: actorsWithAnyRole, args: func(*authzFixture) []any { return []any{fleet.DefaultClusterID} }},
	"ListClusters": {permittedActors: actorsWithAnyRole, args: readUseCase},
	"CreateCluster": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{hosts.ClusterInput{Name: w.uniqueName("cluster")}}
	}},
	"UpdateCluster": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.cluster(), hosts.ClusterInput{Name: w.uniqueName("cluster")}}
	}},
	"DeleteCluster":     {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.cluster()} }},
	"AddHostsToCluster": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.cluster(), []fleet.HostID{w.someHost()}} }},

	// Alarm rules belong to the fleet. Alarms of VMs belong to their project.
	"ListAlarmRules":            {permittedActors: actorsSeeingInfra, args: readUseCase},
	"GetAlarmRule":              {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.alarmRule()} }},
	"CreateAlarmRule":           {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.alarmRuleInput()} }},
	"UpdateAlarmRule":           {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.alarmRule(), w.alarmRuleInput()} }},
	"DeleteAlarmRule":           {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.alarmRule()} }},
	"ListHealthPolicies":        {permittedActors: actorsSeeingInfra, args: noArgs},
	"GetHealthPolicy":           {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.healthPolicy()} }},
	"UndoneWithoutHealthPolicy": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.healthPolicy()} }},
	"HealthMatchesOfPolicy":     {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.healthPolicy(), int64(0), 10} }},
	"HealthMatchesOfHost":       {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"TryHealthPolicy":           {permittedActors: actorsSeeingInfra, args: func(*authzFixture) []any { return []any{"true"} }},
	"CreateHealthPolicy":        {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.healthPolicyInput()} }},
	"UpdateHealthPolicy":        {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.healthPolicy(), w.healthPolicyInput()} }},
	"DeleteHealthPolicy":        {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.healthPolicy(), false} }},
	"ReleaseHealthMatch":        {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.healthMatch()} }},
	"GetHealthPolicySettings":   {permittedActors: actorsSeeingInfra, args: noArgs},
	"SetHealthPolicySettings":   {permittedActors: actorsChangingInfra, args: func(*authzFixture) []any { return []any{healthpolicies.HealthPolicySettings{MaxHosts: 2}} }},

	"ReadEvents":  {permittedActors: actorsWithAnyRole, args: func(*authzFixture) []any { return []any{event.Query{}} }},
	"ListAlarms":  {permittedActors: actorsWithAnyRole, args: readUseCase},
	"AlarmGroups": {permittedActors: actorsWithAnyRole, args: noArgs},
	"AlarmCounts": {permittedActors: actorsWithAnyRole, args: noArgs},
	"AlarmsOf":    {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { w.alarm(); return []any{fleet.Subject("vm:" + string(w.vm()))} }},
	"GetAlarm":    {permittedActors: actorsSeeingRed, args: func(w *authzFixture) []any { return []any{w.alarm()} }},
	"AcknowledgeAlarms": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{alarms.AlarmSelection{ID: w.alarm()}, "I look at it."}
	}},
	"SilenceAlarms": {permittedActors: actorsUsingRed, args: func(w *authzFixture) []any {
		return []any{alarms.AlarmSelection{ID: w.alarm()}, time.Now().Add(time.Hour)}
	}},

	// Hosts, pools and networks.
	"GetDiscoveredVM": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1, discoveredVMID} }},
	"GetHost":         {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"RequestDiscoveredVMAction": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.h1, w.addDiscoveredVM(`{"power":"running"}`), fleet.ActPause}
	}},
	"AdoptVM": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.h1, w.addDiscoveredVM(`{"power":"running"}`), control.AdoptVM{ProjectID: w.red, Name: w.uniqueName("adopted")}}
	}},
	"PlanAdoption": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.h1, w.addDiscoveredVM(`{"power":"running"}`), control.AdoptVM{ProjectID: w.red}}
	}},
	"AdoptVMs": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		return []any{[]control.DiscoveredVMRef{{HostID: w.h1, ID: w.addDiscoveredVM(`{"power":"running"}`)}}, w.red}
	}},
	"RequestDiscoveredVMActions": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		return []any{fleet.ActPause, []control.DiscoveredVMRef{{HostID: w.h1, ID: w.addDiscoveredVM(`{"power":"running"}`)}}}
	}},
	"ReleaseVMs": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}} }},
	"ReleaseVM":  {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"OpenDiscoveredConsole": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		return []any{w.h1, w.addDiscoveredVM(`{"power":"running"}`)}
	}},
	"OpenDiscoveredConsoleSessions": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any {
		return []any{w.h1, w.addDiscoveredVM(`{"power":"running"}`)}
	}},
	"DiscoveredPools":    {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"DiscoveredNetworks": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"PoolAdoption": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any {
		w.setDiscoveredPools(w.h1, dirPool("adoptable", "/srv/adoptable"))
		return []any{w.h1, "adoptable"}
	}},
	"NetworkAdoption": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any {
		name := w.uniqueName("found")
		w.discoverNetwork(name, fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, w.h1)
		return []any{w.h1, name}
	}},
	"AdoptPool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		name := w.uniqueName("found")
		w.setDiscoveredPools(w.h1, dirPool(name, "/srv/"+name))
		return []any{w.h1, name, storage.AdoptPool{}}
	}},
	"AdoptNetwork": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		name := w.uniqueName("found")
		w.discoverNetwork(name, fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, w.h1)
		return []any{w.h1, name, network.AdoptNetwork{}}
	}},
	"ListDiscoveredVMs":      {permittedActors: actorsSeeingInfra, args: readUseCase},
	"HostTotals":             {permittedActors: actorsSeeingInfra, args: noArgs},
	"ListHosts":              {permittedActors: actorsSeeingInfra, args: readUseCase},
	"NetworkAddressesBySpec": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.definedNetwork(), w.h1} }},
	"NetworkAddresses":       {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.definedNetwork(), w.h1} }},
	"NetworkHost":            {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.definedNetwork(), w.h1} }},
	"NetworkHosts":           {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return append(definedNetworkArgs(w), fleet.Query{}) }},
	"PoolHost":               {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.nfs, w.h1} }},
	"PoolGrid":               {permittedActors: actorsSeeingInfra, args: func(*authzFixture) []any { return []any{fleet.Query{}, fleet.Query{}} }},
	"HostTopology":           {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"HealthOfHost":           {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"ClassesOfHost":          {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"AvailableDevices":       {permittedActors: actorsSeeingInfra, args: func(*authzFixture) []any { return []any{"nvidia"} }},
	"AllocatedDevices":       {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"HealthOfHosts":          {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{[]fleet.HostID{w.h1}} }},
	"CriticalConditions":     {permittedActors: actorsSeeingInfra, args: noArgs},
	"HostEvents":             {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1, health.EventQuery{}} }},
	"ResolveCondition": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		w.execSQL(`INSERT INTO host_conditions VALUES ($1, 'gpu', 'gpu/0', 'xid-79', 'critical', 'text', '{}', '{}', now(), now(), 1, true) ON CONFLICT DO NOTHING`, w.h1)
		return []any{w.h1, healthevent.Key{Check: "gpu", Object: "gpu/0", Code: "xid-79"}}
	}},
	"HostDevicesOf":               {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"NetworkGrid":                 {permittedActors: actorsSeeingInfra, args: func(*authzFixture) []any { return []any{fleet.Query{}, fleet.Query{}} }},
	"PoolHosts":                   {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"ByLabel/pool":                {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.nfs)} }},
	"ByLabel/network":             {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork())} }},
	"PreviewHostsByLabel/pool":    {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.nfs), "rack=4"} }},
	"PreviewHostsByLabel/network": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork()), "rack=4"} }},
	"PoolsOnHost":                 {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"CountOpenJobs":               {permittedActors: actorsSeeingInfra, args: noArgs},
	"ExposeFleet":                 {permittedActors: actorsSeeingInfra, args: noArgs},

	"VolumeOn": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.volume()} }},
	"CreateVolume": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.nfs, storage.NewVolume{Name: w.uniqueName("volume"), Format: "raw", SizeBytes: 1 << 20}}
	}},
	"GrowVolume":     {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.volume(), int64(1 << 30), false} }},
	"DownloadVolume": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any { return []any{w.volume()} }},
	"AbandonRelay":   {permittedActors: actorsUsingAnyProject, args: func(w *authzFixture) []any { return []any{fleet.NewID[fleet.PairID]()} }},
	"RenameVolume":   {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.volume(), w.uniqueName("renamed")} }},
	"ConvertVolume": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.volumeOfFormat("vmdk"), w.uniqueName("converted"), false}
	}},
	"ListAppliances": {permittedActors: actorsChangingInfra, args: noArgs},
	"GetAppliance": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		of := w.volumeOfFormat("vhdx")
		return []any{control.ApplianceFile{PoolID: of.PoolID, Volume: of.Volume}}
	}},
	"CloneVolume": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.volume(), w.uniqueName("clone"), false} }},
	"FetchVolume": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.nfs, storage.NewDownload{Name: w.uniqueName("fetched"), URL: "https://example.org/image.qcow2"}}
	}},
	"CreateUpload": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		w.execSQL(`DELETE FROM uploads`) // the number of open uploads per person is limited
		return []any{w.nfs, control.NewUpload{Name: w.uniqueName("sent"), SizeBytes: 1 << 20}}
	}},
	"GetUpload":      {permittedActors: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }}, // an upload of the operator
	"ListUploads":    {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { w.upload(); return []any{w.nfs} }},
	"ContinueUpload": {permittedActors: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }},
	"TouchUpload":    {permittedActors: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }},
	"CancelUpload":   {permittedActors: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }},
	"WipeVolume":     {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { v := w.volume(); return []any{v, v.Volume} }},
	"DeleteVolume":   {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { v := w.volume(); return []any{v, v.Volume} }},

	"Assign/pool":     {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), []fleet.HostID{w.h2}} }},
	"CordonHost":      {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.someHost(), fleet.ActCordon} }},
	"PlanMaintenance": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.someHost(), true} }},
	"EnterMaintenance": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		return []any{w.someHost(), control.EnterMaintenance{Overcommit: true}}
	}},
	"MaintenanceProgress": {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"PlanLeave":           {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.hostInMaintenance()} }},
	"LeaveMaintenance": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		return []any{w.hostInMaintenance(), []fleet.VMID{}}
	}},
	"ListReleases": {permittedActors: actorsSeeingInfra, args: noArgs},
	"RequestAgentUpgrade": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.upgradableHost(), fleet.AgentUpgrade{Version: "2.0.0"}}
	}},
	"UpgradeAgents": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		return []any{upgrades.Order{AgentUpgrade: fleet.AgentUpgrade{Version: "2.0.0"}, Canaries: []fleet.HostID{w.upgradableHost()}}}
	}},
	"RequestHostPower": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.hostInMaintenance()
		w.execSQL(`UPDATE hosts SET name = id WHERE id = $1`, id)
		return []any{id, fleet.ActRebootHost, string(id)}
	}},
	"RunDiagnostics":           {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.hostWithCommands(), []string{}} }},
	"RequestAgentLog":          {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.hostWithCommands()} }},
	"RestartAgent":             {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.hostWithCommands(), true} }},
	"JobsInterruptedByRestart": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"OpenHostCommand":          {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1, fleet.HostDiagnose} }},
	"ListArtifacts":            {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1, hostcommand.Diagnostics} }},
	"AgentLog":                 {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"GetArtifact":              {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.h1, w.artifact()} }},
	"ClearConflict":            {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"SetBMC": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.someHost(), hostpower.BMCInput{Spec: bmc.Spec{Address: "https://10.0.8.11", User: "root"}, Password: "secretsecret1"}}
	}},
	"GetBMC":    {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.hostWithBMC()} }},
	"TestBMC":   {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.hostWithBMC()} }},
	"DeleteBMC": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.hostWithBMC()} }},
	"RequestBMCPower": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.hostWithBMC()
		w.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief","enteredAt":"2026-01-01T00:00:00Z"}', name = id WHERE id = $1`, id)
		return []any{id, fleet.ActReset, string(id)}
	}},
	"RunningVMsOf":    {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"PlanTermination": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.hostInMaintenance(), true} }},
	"TerminateHost": {permittedActors: without(actorsChangingInfra, "system"), args: func(w *authzFixture) []any {
		id := w.hostInMaintenance()
		w.execSQL(`UPDATE hosts SET name = id WHERE id = $1`, id)
		return []any{id, hostpower.TerminateHost{Confirm: string(id)}}
	}},
	"CreatePool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		name := w.uniqueName("pool")
		return []any{storage.CreatePool{Name: name, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/" + name}, HostIDs: []fleet.HostID{w.h1}}}
	}},
	"ChangePoolSecret": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.poolWithSecret(), "secretsecret1"} }},
	"LUNs":             {permittedActors: actorsChangingInfra, args: noArgs},

	"DeleteHost":            {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"DeleteEverywhere/pool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool())} }},
	"Assign/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{fleet.SubjectNetwork(w.definedNetwork()), []fleet.HostID{w.h2}}
	}},
	"DeleteEverywhere/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork())} }},
	"Release/network":          {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork()), w.h1} }},
	"Retry/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.definedNetwork()
		w.execSQL(`UPDATE assignments SET status = '{"active":false}' WHERE network_id = $1`, id)
		return []any{fleet.SubjectNetwork(id), w.h1}
	}},
	"CreateNetwork": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{network.CreateNetwork{Name: w.uniqueName("lan"), Spec: fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, HostIDs: []fleet.HostID{w.h1}}}
	}},
	"ReserveAddress": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.networkWithReservation(), fleet.StaticLease{MAC: "52:54:00:00:00:99", IP: "10.9.0.7"}}
	}},
	"FreeAddress": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.networkWithReservation(), "52:54:00:00:00:98"} }},
	"SetPortGroup": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.networkWithReservation(), fleet.PortGroup{Name: "slow"}, true}
	}},
	"DropPortGroup":  {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.networkWithPortGroup(), "voice"} }},
	"GrantPortGroup": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.networkWithPortGroup(), "voice", w.red} }},
	"RevokePortGroup": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.networkWithPortGroup()
		w.execSQL(`INSERT INTO port_group_grants (network_id, port_group, project_id) VALUES ($1, 'voice', $2)`, id, w.red)
		return []any{id, "voice", w.red}
	}},
	"GrantPool":    {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.ownPool(), w.red} }},
	"RevokePool":   {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.ownPool(), fleet.ProjectID("")} }},
	"GrantNetwork": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.network(), w.red} }},
	"RevokeNetwork": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.network()
		w.execSQL(`INSERT INTO network_grants (network_id, project_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, w.red)
		return []any{id, w.red}
	}},
	"ChooseVMHost": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.vm()
		w.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) VALUES ($1, $2, 'running', 1, true)`, id, w.h2)
		return []any{id, w.h1}
	}},
	"PublishImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		v := w.volume()
		return []any{control.ImageFile{PoolID: v.PoolID, Volume: v.Volume}}
	}},
	"Release/pool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), w.h1} }},
	"Retry/pool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.ownPool()
		w.setPoolState(id, w.h1, fleet.PoolFailed)
		return []any{fleet.SubjectPool(id), w.h1}
	}},
	"ReapplyOnHost/pool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.driftedPool()), w.h1} }},
	"IgnoreDriftOnHost/pool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{fleet.SubjectPool(w.driftedPool()), w.h1, map[string]string{"path": "/b"}}
	}},
	"ShowDriftOnHost/pool":  {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.driftedPool()), w.h1, []string{"path"}} }},
	"PoolDrift":             {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.driftedPool()} }},
	"ReapplyOnHost/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.driftedNetwork()), w.h1} }},
	"AcceptDriftOnHost": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{fleet.SubjectNetwork(w.driftedNetwork()), w.h1, map[string]string{"mtu": "9000"}}
	}},
	"IgnoreDriftOnHost/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{fleet.SubjectNetwork(w.driftedNetwork()), w.h1, map[string]string{"mtu": "9000"}}
	}},
	"ShowDriftOnHost/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{fleet.SubjectNetwork(w.driftedNetwork()), w.h1, []string{"mtu"}}
	}},
	"NetworkDrift":          {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.driftedNetwork()} }},
	"AssignByLabel/pool":    {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), "rack=4"} }},
	"AssignByLabel/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork()), "rack=4"} }},
	"RetryEverywhere/pool": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.ownPool()
		w.setPoolState(id, w.h1, fleet.PoolFailed)
		return []any{fleet.SubjectPool(id)}
	}},
	"RetryEverywhere/network": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		id := w.definedNetwork()
		w.execSQL(`UPDATE assignments SET status = '{"active":false}' WHERE network_id = $1`, id)
		return []any{fleet.SubjectNetwork(id)}
	}},
	"UpdateHost": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.h1, hosts.UpdateHost{Spec: specWithLabels(map[string]string{"rack": "r1"})}}
	}},
	"WithdrawImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{control.ImageFile{PoolID: w.ownPool(), Volume: "debian.qcow2"}}
	}},

	// Image library.
	"AddImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{control.NewImage{Name: w.uniqueName("image"), Source: control.ImageSource{PoolID: w.nfs, Volume: w.volume().Volume}}}
	}},
	"AddImageVersion": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.image(), control.ImageSource{PoolID: w.nfs, Volume: w.volume().Volume}}
	}},
	"EditImage":   {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.image(), control.EditImage{Description: new("tidy")}} }},
	"GrantImage":  {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.image(), w.red} }},
	"RevokeImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.image(), fleet.ProjectID("")} }},
	"DeleteImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { of := w.imageCopy(); return []any{of.ImageID, w.imageName(of), false} }},
	"CopyImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.image(), control.NewCopy{PoolID: w.ownPool(), HostID: w.h1}}
	}},
	"VerifyCopy":            {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.imageCopy()} }},
	"RemoveCopyFromLibrary": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.imageCopy()} }},
	"DeleteCopy":            {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { of := w.imageCopy(); return []any{of, of.Volume} }},
	"CopiesOfImage":         {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{fleet.ImageView{}} }},
	"StartImages":           {permittedActors: actorsSeeingInfra, args: noArgs},
	"StartImage":            {permittedActors: actorsSeeingInfra, args: func(w *authzFixture) []any { return []any{w.startImage()} }},
	"AddStartImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{control.NewStartImage{Name: w.uniqueName("entry"), URL: "https://example.org/a.qcow2"}}
	}},
	"EditStartImage": {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any {
		return []any{w.startImage(), control.EditStartImage{File: new("b.qcow2")}}
	}},
	"RemoveStartImage":    {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.startImage()} }},
	"RestoreStartImages":  {permittedActors: actorsChangingInfra, args: noArgs},
	"PullStartImage":      {permittedActors: actorsChangingInfra, args: func(w *authzFixture) []any { return []any{w.startImage(), control.PullDestination{PoolID: w.nfs}} }},
	"GetImage":            {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.image()} }},
	"ListImages":          {permittedActors: actorsWithAnyRole, args: readUseCase},
	"UsableImages":        {permittedActors: actorsWithAnyRole, args: func(w *authzFixture) []any { return []any{w.red} }},
	"OnlineHostWithPools": {permittedActors: onlyPortal, args: func(w *authzFixture) []any { return []any{w.nfs, w.nfs, fleet.HostID("")} }},
}
