package agentapi

import (
	"context"
	"encoding/json"
	"strings"

	"quantix/db"
	"quantix/internal/control/metrics"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

// hostMeasurements holds the values that one host measured of its running VMs.
type hostMeasurements struct {
	host    fleet.HostID
	meters  []wire.Meter
	filters *secgroup.FilterCounts
	guests  []fleet.GuestReading
	samples *metric.Samples
}

// measurementsOf returns the measurements of a report.
func measurementsOf(host fleet.HostID, in wire.Report) hostMeasurements {
	return hostMeasurements{host, in.Meters, in.Filters, in.Guests, in.Samples}
}

// writeMeters stores the VM meter values of hosts whose agent sessions are verified. Negative CPU times are stored as
// 0, because queries subtract CPU times and could overflow.
func (api *API) writeMeters(ctx context.Context, all ...hostMeasurements) error {
	if err := api.writePacketCounts(ctx, all...); err != nil {
		return err
	}
	if err := api.writeGuestReports(ctx, all...); err != nil {
		return err
	}
	n := 0
	for _, h := range all {
		n += len(h.meters)
	}
	if n == 0 {
		return nil
	}
	p := db.ReportMetersParams{HostIds: make([]string, 0, n), VMIDs: make([]string, 0, n)}
	numbers := make([]int64, 6*n)
	lists := []*[]int64{&p.CpuNanos, &p.MemoryBytes, &p.ReadBytes, &p.WriteBytes, &p.ReceiveBytes, &p.SendBytes}
	for i, l := range lists {
		*l = numbers[i*n : i*n : (i+1)*n]
	}
	for _, h := range all {
		for _, m := range h.meters {
			p.HostIds, p.VMIDs = append(p.HostIds, string(h.host)), append(p.VMIDs, string(m.ID))
			for i, v := range [...]int64{max(m.CPUNanos, 0), m.MemoryBytes, m.ReadBytes, m.WriteBytes, m.ReceiveBytes, m.SendBytes} {
				*lists[i] = append(*lists[i], v)
			}
		}
	}
	return api.store.ReportMeters(ctx, p)
}

// writeSamples stores the metric values of hosts whose agent sessions are verified.
func (api *API) writeSamples(ctx context.Context, all ...hostMeasurements) {
	var samples []metrics.HostSamples
	for _, h := range all {
		if h.samples != nil {
			samples = append(samples, metrics.HostSamples{Host: h.host, Samples: *h.samples})
		}
	}
	api.samples.Write(ctx, samples)
}

// writeGuestReports stores what the VMs' guest agents reported.
func (api *API) writeGuestReports(ctx context.Context, all ...hostMeasurements) error {
	var p db.ReportGuestsParams
	for _, h := range all {
		for _, g := range h.guests {
			reading, err := json.Marshal(g)
			if err != nil {
				return err
			}
			p.HostIds, p.VMIDs = append(p.HostIds, string(h.host)), append(p.VMIDs, string(g.ID))
			p.Agos, p.Readings = append(p.Agos, durationFromMilliseconds(g.AgoMs).Milliseconds()), append(p.Readings, string(reading))
		}
	}
	if len(p.VMIDs) == 0 {
		return nil
	}
	return api.store.ReportGuests(ctx, p)
}

// writePacketCounts stores packet counts of NICs.
func (api *API) writePacketCounts(ctx context.Context, all ...hostMeasurements) error {
	var p db.ReportFilterCountsParams
	for _, h := range all {
		if h.filters == nil {
			continue
		}
		for i := range h.filters.NICs {
			h.filters.NICs[i].MAC = strings.ToLower(h.filters.NICs[i].MAC)
		}
		nics, err := json.Marshal(h.filters.NICs)
		if err != nil {
			return err
		}
		if h.filters.NICs == nil {
			nics = []byte("[]")
		}
		p.HostIds, p.Agos = append(p.HostIds, string(h.host)), append(p.Agos, durationFromMilliseconds(h.filters.AgoMs).Milliseconds())
		p.Nics, p.Errors = append(p.Nics, string(nics)), append(p.Errors, h.filters.Error)
	}
	if len(p.HostIds) == 0 {
		return nil
	}
	return api.store.ReportFilterCounts(ctx, p)
}
