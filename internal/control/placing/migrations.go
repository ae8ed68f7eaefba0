package placing

import (
	"cmp"
	"context"

	"quantix/db"
	"quantix/internal/fleet"
)

// TransferRates are measured rates between hosts, in bytes per second.
type TransferRates map[[2]fleet.HostID]int64

// ReadTransferRates returns the rates of transfers from the hosts.
func ReadTransferRates(ctx context.Context, q *db.Queries, sources []string) (TransferRates, error) {
	rows, err := q.TransferRatesFrom(ctx, sources)
	out := TransferRates{}
	sums := map[fleet.HostID][2]int64{}
	for _, r := range rows {
		out[[2]fleet.HostID{r.FromHost, r.ToHost}] = r.BytesPerSecond
		sum := sums[r.FromHost]
		sums[r.FromHost] = [2]int64{sum[0] + r.BytesPerSecond, sum[1] + 1}
	}
	for from, sum := range sums { // the mean rate, for hosts to which nothing was sent yet
		out[[2]fleet.HostID{from, ""}] = sum[0] / sum[1]
	}
	return out, err
}

// EstimateSeconds returns how long the transfer would take, at least a second; 0: no rate is known.
func (r TransferRates) EstimateSeconds(from, to fleet.HostID, bytes int64) int64 {
	rate := cmp.Or(r[[2]fleet.HostID{from, to}], r[[2]fleet.HostID{from, ""}])
	if rate == 0 {
		return 0
	}
	return max(1, (bytes+rate-1)/rate)
}

// MigrationSupport is what the agent of each host can do in migrations.
type MigrationSupport map[fleet.HostID]db.MigrationSupportRow

// ReadMigrationSupport returns what the agents of the source hosts, and of the target host or of all hosts, can do.
func ReadMigrationSupport(ctx context.Context, q *db.Queries, host fleet.HostID, sources []string) (MigrationSupport, error) {
	rows, err := q.MigrationSupport(ctx, db.MigrationSupportParams{Host: string(host), Sources: sources})
	out := MigrationSupport{}
	for _, r := range rows {
		out[r.ID] = r
	}
	return out, err
}

// WhyTooOld returns why the agents of the VM's host and of the target cannot migrate the VM.
func (s MigrationSupport) WhyTooOld(vm fleet.VMView, to fleet.HostID) (reasons []string) {
	source, target := s[vm.HostID], s[to]
	require := func(able bool, host, work string) {
		if !able {
			reasons = append(reasons, "The agent of "+host+" is too old to "+work+". Update the agent.")
		}
	}
	if vm.MigratesLive() {
		require(source.MigratesLive, source.Name, "migrate VMs live")
		require(target.MigratesLive, target.Name, "migrate VMs live")
		return reasons
	}
	if vm.Spec.HasFirmwareState() {
		require(target.ReceivesFirmware, target.Name, "receive UEFI variables and TPM state")
	}
	if vm.Adoption != nil {
		require(source.ReceivesDefinitions, source.Name, "send the definition of an adopted VM") // since the same version
		require(target.ReceivesDefinitions, target.Name, "receive the definition of an adopted VM")
	}
	return reasons
}
