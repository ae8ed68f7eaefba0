package fetch

import "time"

// downloadMeter reports the progress of a download, at most twice a second.
type downloadMeter struct {
	done, total       int64
	report            func(done, total, rate int64)
	begun, reportedAt time.Time
}

func newMeter(total int64, report func(done, total, rate int64)) *downloadMeter {
	return &downloadMeter{total: total, report: report, begun: time.Now()}
}

func (m *downloadMeter) update() {
	now := time.Now()
	if now.Sub(m.reportedAt) < 500*time.Millisecond {
		return
	}
	m.reportedAt = now
	rate := int64(0)
	if took := now.Sub(m.begun).Seconds(); took > 0.1 {
		rate = int64(float64(m.done) / took)
	}
	m.report(m.done, m.total, rate)
}
