package control_test

import (
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// infraCases are the entries of useCases for hosts, storage, networks and images.
var infraCases = map[string]useCase{
	// Storage and networks belong to no project: members of every project may list them for new VMs.
	"GetNetwork":   {permitted: somewhere, args: aNetwork},
	"GetPool":      {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.nfs} }},
	"Images":       {permitted: somewhere, args: noArgs},
	"Media":        {permitted: somewhere, args: noArgs},
	"ISOs":         {permitted: somewhere, args: noArgs},
	"ListNetworks": {permitted: somewhere, args: readUseCase},
	"ListPools":    {permitted: somewhere, args: readUseCase},

	"ListPoolsInFull":    {permitted: somewhere, args: readUseCase},
	"ListNetworksInFull": {permitted: somewhere, args: readUseCase},

	"VMDefaults":      {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.red, fleet.HostID("")} }},
	"VMDefaultsOf":    {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.red, []fleet.PoolView(nil), []fleet.NetworkView(nil)} }},
	"UsableNetworks":  {permitted: somewhere, args: noArgs},
	"NetworksFor":     {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"NetworksOn":      {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"VMAddresses":     {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"PortGroupsToUse": {permitted: somewhere, args: noArgs},
	"PortGroups":      {permitted: somewhere, args: aNetwork},
	"NetworkBrief":    {permitted: somewhere, args: aNetwork},
	"NetworkTopology": {permitted: somewhere, args: aNetwork},
	"PoolCounts":      {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.nfs} }},
	"PoolMatrix":      {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"PoolNames":       {permitted: somewhere, args: func(w *authzFixture) []any { return []any{[]fleet.PoolID{w.nfs}} }},
	"PoolVMs":         {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"PoolVolumes":     {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.nfs} }},

	// Infrastructure.
	"GetDiscoveredVM":       {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.h1, foundID} }},
	"GetHost":               {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"ListDiscoveredVMs":     {permitted: infraSeen, args: readUseCase},
	"HostTotals":            {permitted: infraSeen, args: noArgs},
	"ListHosts":             {permitted: infraSeen, args: readUseCase},
	"AddressBook":           {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.definedNetwork(), w.h1} }},
	"NetworkAddresses":      {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.definedNetwork(), w.h1} }},
	"NetworkHost":           {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.definedNetwork(), w.h1} }},
	"NetworkHosts":          {permitted: infraSeen, args: func(w *authzFixture) []any { return append(aNetwork(w), fleet.Query{}) }},
	"PoolHost":              {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.nfs, w.h1} }},
	"PoolGrid":              {permitted: infraSeen, args: func(*authzFixture) []any { return []any{fleet.Query{}, fleet.Query{}} }},
	"HostTopology":          {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"HostDevicesOf":         {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"NetworkGrid":           {permitted: infraSeen, args: func(*authzFixture) []any { return []any{fleet.Query{}, fleet.Query{}} }},
	"PoolHosts":             {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"ByLabel/pool":          {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.nfs)} }},
	"ByLabel/network":       {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork())} }},
	"LabelledHosts/pool":    {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.nfs), "rack=4"} }},
	"LabelledHosts/network": {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork()), "rack=4"} }},
	"PoolsOn":               {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.h1} }},
	"OpenJobs":              {permitted: infraSeen, args: noArgs},

	"VolumeOn": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.volume()} }},
	"CreateVolume": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.nfs, control.NewVolume{Name: w.name("volume"), Format: "raw", SizeBytes: 1 << 20}}
	}},
	"GrowVolume":   {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.volume(), int64(1 << 30), false} }},
	"ReadVolume":   {permitted: except(infraChange, "system"), args: func(w *authzFixture) []any { return []any{w.volume()} }},
	"AbandonRelay": {permitted: someUse, args: func(w *authzFixture) []any { return []any{fleet.NewID[fleet.PairID]()} }},
	"RenameVolume": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.volume(), w.name("renamed")} }},
	"ConvertVolume": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.volumeOfFormat("vmdk"), w.name("converted"), false}
	}},
	"ListAppliances": {permitted: infraChange, args: noArgs},
	"GetAppliance": {permitted: infraChange, args: func(w *authzFixture) []any {
		of := w.volumeOfFormat("vhdx")
		return []any{control.ApplianceFile{PoolID: of.PoolID, Volume: of.Volume}}
	}},
	"CloneVolume": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.volume(), w.name("clone"), false} }},
	"FetchVolume": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.nfs, control.NewDownload{Name: w.name("fetched"), URL: "https://example.org/image.qcow2"}}
	}},
	"CreateUpload": {permitted: except(infraChange, "system"), args: func(w *authzFixture) []any {
		w.exec(`DELETE FROM uploads`) // the number of open uploads per person is limited
		return []any{w.nfs, control.NewUpload{Name: w.name("sent"), SizeBytes: 1 << 20}}
	}},
	"GetUpload":      {permitted: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }}, // an upload of the operator
	"ListUploads":    {permitted: infraChange, args: func(w *authzFixture) []any { w.upload(); return []any{w.nfs} }},
	"ContinueUpload": {permitted: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }},
	"TouchUpload":    {permitted: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }},
	"CancelUpload":   {permitted: "operator", args: func(w *authzFixture) []any { return []any{w.upload()} }},
	"WipeVolume":     {permitted: infraChange, args: func(w *authzFixture) []any { v := w.volume(); return []any{v, v.Volume} }},
	"DeleteVolume":   {permitted: infraChange, args: func(w *authzFixture) []any { v := w.volume(); return []any{v, v.Volume} }},

	"Assign/pool":   {permitted: infraChange, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), []fleet.HostID{w.h2}} }},
	"ClearConflict": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"CreatePool": {permitted: infraChange, args: func(w *authzFixture) []any {
		name := w.name("pool")
		return []any{control.CreatePool{Name: name, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/" + name}, HostIDs: []fleet.HostID{w.h1}}}
	}},
	"ChangePoolSecret": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.poolWithSecret(), "secretsecret1"} }},
	"LUNs":             {permitted: infraChange, args: noArgs},

	"DeleteHost":            {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"DeleteEverywhere/pool": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool())} }},
	"Assign/network": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{fleet.SubjectNetwork(w.definedNetwork()), []fleet.HostID{w.h2}}
	}},
	"DeleteEverywhere/network": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork())} }},
	"Release/network":          {permitted: infraChange, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork()), w.h1} }},
	"Retry/network": {permitted: infraChange, args: func(w *authzFixture) []any {
		id := w.definedNetwork()
		w.exec(`UPDATE assignments SET status = '{"active":false}' WHERE network_id = $1`, id)
		return []any{fleet.SubjectNetwork(id), w.h1}
	}},
	"CreateNetwork": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{control.CreateNetwork{Name: w.name("lan"), Spec: fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, HostIDs: []fleet.HostID{w.h1}}}
	}},
	"ReserveAddress": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.networkWithReservation(), fleet.StaticLease{MAC: "52:54:00:00:00:99", IP: "10.9.0.7"}}
	}},
	"FreeAddress": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.networkWithReservation(), "52:54:00:00:00:98"} }},
	"SetPortGroup": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.networkWithReservation(), fleet.PortGroup{Name: "slow"}, true}
	}},
	"DropPortGroup":  {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.networkWithPortGroup(), "voice"} }},
	"GrantPortGroup": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.networkWithPortGroup(), "voice", w.red} }},
	"RevokePortGroup": {permitted: infraChange, args: func(w *authzFixture) []any {
		id := w.networkWithPortGroup()
		w.exec(`INSERT INTO port_group_grants (network_id, port_group, project_id) VALUES ($1, 'voice', $2)`, id, w.red)
		return []any{id, "voice", w.red}
	}},
	"GrantNetwork": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.network(), w.red} }},
	"RevokeNetwork": {permitted: infraChange, args: func(w *authzFixture) []any {
		id := w.network()
		w.exec(`INSERT INTO network_grants (network_id, project_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, w.red)
		return []any{id, w.red}
	}},
	"PlaceVM": {permitted: infraChange, args: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) VALUES ($1, $2, 'running', 1, true)`, id, w.h2)
		return []any{id, w.h1}
	}},
	"PublishImage": {permitted: infraChange, args: func(w *authzFixture) []any {
		v := w.volume()
		return []any{control.Image{PoolID: v.PoolID, Volume: v.Volume}}
	}},
	"Release/pool": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), w.h1} }},
	"Retry/pool": {permitted: infraChange, args: func(w *authzFixture) []any {
		id := w.ownPool()
		w.setPoolState(id, w.h1, fleet.PoolFailed)
		return []any{fleet.SubjectPool(id), w.h1}
	}},
	"AssignByLabel/pool":    {permitted: infraChange, args: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), "rack=4"} }},
	"AssignByLabel/network": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.definedNetwork()), "rack=4"} }},
	"RetryEverywhere/pool": {permitted: infraChange, args: func(w *authzFixture) []any {
		id := w.ownPool()
		w.setPoolState(id, w.h1, fleet.PoolFailed)
		return []any{fleet.SubjectPool(id)}
	}},
	"RetryEverywhere/network": {permitted: infraChange, args: func(w *authzFixture) []any {
		id := w.definedNetwork()
		w.exec(`UPDATE assignments SET status = '{"active":false}' WHERE network_id = $1`, id)
		return []any{fleet.SubjectNetwork(id)}
	}},
	"UpdateHost": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.h1, control.UpdateHost{Labels: map[string]string{"rack": "r1"}}}
	}},
	"WithdrawImage": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{control.Image{PoolID: w.ownPool(), Volume: "debian.qcow2"}} }},

	// Image library.
	"AddImage": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{control.NewImage{Name: w.name("image"), Source: control.ImageSource{PoolID: w.nfs, Volume: w.volume().Volume}}}
	}},
	"AddImageVersion": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.image(), control.ImageSource{PoolID: w.nfs, Volume: w.volume().Volume}}
	}},
	"EditImage":   {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.image(), control.EditImage{Description: new("tidy")}} }},
	"GrantImage":  {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.image(), w.red} }},
	"RevokeImage": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.image(), fleet.ProjectID("")} }},
	"DeleteImage": {permitted: infraChange, args: func(w *authzFixture) []any { of := w.imageCopy(); return []any{of.ImageID, w.imageName(of), false} }},
	"CopyImage": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.image(), control.NewCopy{PoolID: w.ownPool(), HostID: w.h1}}
	}},
	"VerifyCopy":  {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.imageCopy()} }},
	"ForgetCopy":  {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.imageCopy()} }},
	"DeleteCopy":  {permitted: infraChange, args: func(w *authzFixture) []any { of := w.imageCopy(); return []any{of, of.Volume} }},
	"CopiesOf":    {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{fleet.ImageView{}} }},
	"StartImages": {permitted: infraSeen, args: noArgs},
	"StartImage":  {permitted: infraSeen, args: func(w *authzFixture) []any { return []any{w.startImage()} }},
	"AddStartImage": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{control.NewStartImage{Name: w.name("entry"), URL: "https://example.org/a.qcow2"}}
	}},
	"EditStartImage": {permitted: infraChange, args: func(w *authzFixture) []any {
		return []any{w.startImage(), control.EditStartImage{File: new("b.qcow2")}}
	}},
	"RemoveStartImage":    {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.startImage()} }},
	"RestoreStartImages":  {permitted: infraChange, args: noArgs},
	"PullStartImage":      {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.startImage(), control.PullDestination{PoolID: w.nfs}} }},
	"GetImage":            {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.image()} }},
	"ListImages":          {permitted: somewhere, args: readUseCase},
	"UsableImages":        {permitted: somewhere, args: func(w *authzFixture) []any { return []any{w.red} }},
	"OnlineHostWithPools": {permitted: portal, args: func(w *authzFixture) []any { return []any{w.nfs, w.nfs, fleet.HostID("")} }},
}
