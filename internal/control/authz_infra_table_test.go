package control_test

import (
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// infraCases are the entries of useCases for hosts, storage, networks and images.
var infraCases = map[string]useCase{
	// Storage and networks belong to no project: members of every project may list them for new VMs.
	"GetNetwork":   {may: somewhere, with: aNetwork},
	"GetPool":      {may: somewhere, with: func(w *authzFixture) []any { return []any{w.nfs} }},
	"Images":       {may: somewhere, with: none},
	"Media":        {may: somewhere, with: none},
	"ISOs":         {may: somewhere, with: none},
	"ListNetworks": {may: somewhere, with: readUseCase},
	"ListPools":    {may: somewhere, with: readUseCase},

	"ListPoolsInFull":    {may: somewhere, with: readUseCase},
	"ListNetworksInFull": {may: somewhere, with: readUseCase},

	"VMDefaults":      {may: redSeen, with: func(w *authzFixture) []any { return []any{w.red, fleet.HostID("")} }},
	"VMDefaultsOf":    {may: redSeen, with: func(w *authzFixture) []any { return []any{w.red, []fleet.PoolView(nil), []fleet.NetworkView(nil)} }},
	"UsableNetworks":  {may: somewhere, with: none},
	"NetworksFor":     {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"NetworksOn":      {may: somewhere, with: func(w *authzFixture) []any { return []any{w.h1} }},
	"VMAddresses":     {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"PortGroupsToUse": {may: somewhere, with: none},
	"PortGroups":      {may: somewhere, with: aNetwork},
	"NetworkBrief":    {may: somewhere, with: aNetwork},
	"NetworkTopology": {may: somewhere, with: aNetwork},
	"PoolCounts":      {may: somewhere, with: func(w *authzFixture) []any { return []any{w.nfs} }},
	"PoolMatrix":      {may: somewhere, with: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"PoolNames":       {may: somewhere, with: func(w *authzFixture) []any { return []any{[]fleet.PoolID{w.nfs}} }},
	"PoolVMs":         {may: somewhere, with: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"PoolVolumes":     {may: somewhere, with: func(w *authzFixture) []any { return []any{w.nfs} }},

	// Infrastructure.
	"GetDiscoveredVM":       {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.h1, foundID} }},
	"GetHost":               {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.h1} }},
	"ListDiscoveredVMs":     {may: infraSeen, with: readUseCase},
	"HostTotals":            {may: infraSeen, with: none},
	"ListHosts":             {may: infraSeen, with: readUseCase},
	"AddressBook":           {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.lan(), w.h1} }},
	"NetworkAddresses":      {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.lan(), w.h1} }},
	"NetworkHost":           {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.lan(), w.h1} }},
	"NetworkHosts":          {may: infraSeen, with: func(w *authzFixture) []any { return append(aNetwork(w), fleet.Query{}) }},
	"PoolHost":              {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.nfs, w.h1} }},
	"PoolGrid":              {may: infraSeen, with: func(*authzFixture) []any { return []any{fleet.Query{}, fleet.Query{}} }},
	"HostTopology":          {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.h1} }},
	"HostDevicesOf":         {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.h1} }},
	"NetworkGrid":           {may: infraSeen, with: func(*authzFixture) []any { return []any{fleet.Query{}, fleet.Query{}} }},
	"PoolHosts":             {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.nfs, fleet.Query{}} }},
	"ByLabel/pool":          {may: infraSeen, with: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.nfs)} }},
	"ByLabel/network":       {may: infraSeen, with: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.lan())} }},
	"LabelledHosts/pool":    {may: infraSeen, with: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.nfs), "rack=4"} }},
	"LabelledHosts/network": {may: infraSeen, with: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.lan()), "rack=4"} }},
	"PoolsOn":               {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.h1} }},
	"OpenJobs":              {may: infraSeen, with: none},

	"VolumeOn": {may: infraChange, with: func(w *authzFixture) []any { return []any{w.volume()} }},
	"CreateVolume": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.nfs, control.NewVolume{Name: w.name("volume"), Format: "raw", SizeBytes: 1 << 20}}
	}},
	"GrowVolume":    {may: infraChange, with: func(w *authzFixture) []any { return []any{w.volume(), int64(1 << 30), false} }},
	"ReadVolume":    {may: except(infraChange, "system"), with: func(w *authzFixture) []any { return []any{w.volume()} }},
	"MigrateVolume": {may: someUse, with: func(w *authzFixture) []any { return []any{fleet.NewID[fleet.PairID]()} }},
	"RenameVolume":  {may: infraChange, with: func(w *authzFixture) []any { return []any{w.volume(), w.name("renamed")} }},
	"ConvertVolume": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.foreignVolume("vmdk"), w.name("converted"), false}
	}},
	"ListAppliances": {may: infraChange, with: none},
	"GetAppliance": {may: infraChange, with: func(w *authzFixture) []any {
		of := w.foreignVolume("vhdx")
		return []any{control.OfAppliance{PoolID: of.PoolID, Volume: of.Volume}}
	}},
	"CloneVolume": {may: infraChange, with: func(w *authzFixture) []any { return []any{w.volume(), w.name("clone"), false} }},
	"FetchVolume": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.nfs, control.NewDownload{Name: w.name("fetched"), URL: "https://example.org/image.qcow2"}}
	}},
	"CreateUpload": {may: except(infraChange, "system"), with: func(w *authzFixture) []any {
		w.exec(`DELETE FROM uploads`) // the number of open uploads per person is limited
		return []any{w.nfs, control.NewUpload{Name: w.name("sent"), SizeBytes: 1 << 20}}
	}},
	"GetUpload":      {may: "operator", with: func(w *authzFixture) []any { return []any{w.upload()} }}, // an upload of the operator
	"ListUploads":    {may: infraChange, with: func(w *authzFixture) []any { w.upload(); return []any{w.nfs} }},
	"ContinueUpload": {may: "operator", with: func(w *authzFixture) []any { return []any{w.upload()} }},
	"KeepUpload":     {may: "operator", with: func(w *authzFixture) []any { return []any{w.upload()} }},
	"CancelUpload":   {may: "operator", with: func(w *authzFixture) []any { return []any{w.upload()} }},
	"WipeVolume":     {may: infraChange, with: func(w *authzFixture) []any { v := w.volume(); return []any{v, v.Volume} }},
	"DeleteVolume":   {may: infraChange, with: func(w *authzFixture) []any { v := w.volume(); return []any{v, v.Volume} }},

	"Assign/pool":   {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), []fleet.HostID{w.h2}} }},
	"ClearConflict": {may: infraChange, with: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"CreatePool": {may: infraChange, with: func(w *authzFixture) []any {
		name := w.name("pool")
		return []any{control.CreatePool{Name: name, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/" + name}, HostIDs: []fleet.HostID{w.h1}}}
	}},
	"ChangePoolSecret": {may: infraChange, with: func(w *authzFixture) []any { return []any{w.poolWithSecret(), "secretsecret1"} }},
	"LUNs":             {may: infraChange, with: none},

	"DeleteHost":               {may: infraChange, with: func(w *authzFixture) []any { return []any{w.someHost()} }},
	"DeleteEverywhere/pool":    {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool())} }},
	"Assign/network":           {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.lan()), []fleet.HostID{w.h2}} }},
	"DeleteEverywhere/network": {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.lan())} }},
	"Release/network":          {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.lan()), w.h1} }},
	"Retry/network": {may: infraChange, with: func(w *authzFixture) []any {
		id := w.lan()
		w.exec(`UPDATE assignments SET status = '{"active":false}' WHERE network_id = $1`, id)
		return []any{fleet.SubjectNetwork(id), w.h1}
	}},
	"CreateNetwork": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{control.CreateNetwork{Name: w.name("lan"), Spec: fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, HostIDs: []fleet.HostID{w.h1}}}
	}},
	"ReserveAddress": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.dhcp(), fleet.StaticLease{MAC: "52:54:00:00:00:99", IP: "10.9.0.7"}}
	}},
	"FreeAddress":    {may: infraChange, with: func(w *authzFixture) []any { return []any{w.dhcp(), "52:54:00:00:00:98"} }},
	"SetPortGroup":   {may: infraChange, with: func(w *authzFixture) []any { return []any{w.dhcp(), fleet.PortGroup{Name: "slow"}, true} }},
	"DropPortGroup":  {may: infraChange, with: func(w *authzFixture) []any { return []any{w.grouped(), "voice"} }},
	"GrantPortGroup": {may: infraChange, with: func(w *authzFixture) []any { return []any{w.grouped(), "voice", w.red} }},
	"RevokePortGroup": {may: infraChange, with: func(w *authzFixture) []any {
		id := w.grouped()
		w.exec(`INSERT INTO port_group_grants (network_id, port_group, project_id) VALUES ($1, 'voice', $2)`, id, w.red)
		return []any{id, "voice", w.red}
	}},
	"GrantNetwork": {may: infraChange, with: func(w *authzFixture) []any { return []any{w.network(), w.red} }},
	"RevokeNetwork": {may: infraChange, with: func(w *authzFixture) []any {
		id := w.network()
		w.exec(`INSERT INTO network_grants (network_id, project_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, w.red)
		return []any{id, w.red}
	}},
	"PlaceVM": {may: infraChange, with: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven) VALUES ($1, $2, 'running', 1, true)`, id, w.h2)
		return []any{id, w.h1}
	}},
	"PublishImage": {may: infraChange, with: func(w *authzFixture) []any {
		v := w.volume()
		return []any{control.Image{PoolID: v.PoolID, Volume: v.Volume}}
	}},
	"Release/pool": {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), w.h1} }},
	"Retry/pool": {may: infraChange, with: func(w *authzFixture) []any {
		id := w.ownPool()
		w.setPoolState(id, w.h1, fleet.PoolFailed)
		return []any{fleet.SubjectPool(id), w.h1}
	}},
	"AssignByLabel/pool":    {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectPool(w.ownPool()), "rack=4"} }},
	"AssignByLabel/network": {may: infraChange, with: func(w *authzFixture) []any { return []any{fleet.SubjectNetwork(w.lan()), "rack=4"} }},
	"RetryEverywhere/pool": {may: infraChange, with: func(w *authzFixture) []any {
		id := w.ownPool()
		w.setPoolState(id, w.h1, fleet.PoolFailed)
		return []any{fleet.SubjectPool(id)}
	}},
	"RetryEverywhere/network": {may: infraChange, with: func(w *authzFixture) []any {
		id := w.lan()
		w.exec(`UPDATE assignments SET status = '{"active":false}' WHERE network_id = $1`, id)
		return []any{fleet.SubjectNetwork(id)}
	}},
	"UpdateHost": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.h1, control.UpdateHost{Labels: map[string]string{"rack": "r1"}}}
	}},
	"WithdrawImage": {may: infraChange, with: func(w *authzFixture) []any { return []any{control.Image{PoolID: w.ownPool(), Volume: "debian.qcow2"}} }},

	// Image library.
	"AddImage": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{control.NewImage{Name: w.name("image"), Source: control.ImageSource{PoolID: w.nfs, Volume: w.volume().Volume}}}
	}},
	"AddImageVersion": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.image(), control.ImageSource{PoolID: w.nfs, Volume: w.volume().Volume}}
	}},
	"EditImage":   {may: infraChange, with: func(w *authzFixture) []any { return []any{w.image(), control.EditImage{Description: new("tidy")}} }},
	"GrantImage":  {may: infraChange, with: func(w *authzFixture) []any { return []any{w.image(), w.red} }},
	"RevokeImage": {may: infraChange, with: func(w *authzFixture) []any { return []any{w.image(), fleet.ProjectID("")} }},
	"DeleteImage": {may: infraChange, with: func(w *authzFixture) []any { of := w.imageCopy(); return []any{of.ImageID, w.imageName(of), false} }},
	"CopyImage": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.image(), control.NewCopy{PoolID: w.ownPool(), HostID: w.h1}}
	}},
	"VerifyCopy":  {may: infraChange, with: func(w *authzFixture) []any { return []any{w.imageCopy()} }},
	"ForgetCopy":  {may: infraChange, with: func(w *authzFixture) []any { return []any{w.imageCopy()} }},
	"DeleteCopy":  {may: infraChange, with: func(w *authzFixture) []any { of := w.imageCopy(); return []any{of, of.Volume} }},
	"CopiesOf":    {may: infraSeen, with: func(w *authzFixture) []any { return []any{fleet.ImageView{}} }},
	"StartImages": {may: infraSeen, with: none},
	"StartImage":  {may: infraSeen, with: func(w *authzFixture) []any { return []any{w.startImage()} }},
	"AddStartImage": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{control.NewStartImage{Name: w.name("entry"), URL: "https://example.org/a.qcow2"}}
	}},
	"EditStartImage": {may: infraChange, with: func(w *authzFixture) []any {
		return []any{w.startImage(), control.EditStartImage{File: new("b.qcow2")}}
	}},
	"RemoveStartImage":   {may: infraChange, with: func(w *authzFixture) []any { return []any{w.startImage()} }},
	"RestoreStartImages": {may: infraChange, with: none},
	"PullStartImage":     {may: infraChange, with: func(w *authzFixture) []any { return []any{w.startImage(), control.Pull{PoolID: w.nfs}} }},
	"GetImage":           {may: somewhere, with: func(w *authzFixture) []any { return []any{w.image()} }},
	"ListImages":         {may: somewhere, with: readUseCase},
	"UsableImages":       {may: somewhere, with: func(w *authzFixture) []any { return []any{w.red} }},
	"HostWithBoth":       {may: portal, with: func(w *authzFixture) []any { return []any{w.nfs, w.nfs, fleet.HostID("")} }},
}
