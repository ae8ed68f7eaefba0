package upload

import "time"

// uploadMeter reports the progress of an upload, at most twice a second. The rate is that of the current connection.
type uploadMeter struct {
	total      int64
	report     func(done, total, rate int64)
	began      int64 // bytes present when the connection began
	opened     time.Time
	reportedAt time.Time
}

func (m *uploadMeter) begin(done int64) { m.began, m.opened = done, time.Now() }

func (m *uploadMeter) update(done int64) {
	now := time.Now()
	if now.Sub(m.reportedAt) < 500*time.Millisecond && done < m.total {
		return
	}
	m.reportedAt = now
	rate := int64(0)
	if took := now.Sub(m.opened).Seconds(); !m.opened.IsZero() && took > 0.1 {
		rate = int64(float64(done-m.began) / took)
	}
	m.report(done, m.total, rate)
}
