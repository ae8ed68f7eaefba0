package bench

import (
	"os"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/testkit"
)

// BenchmarkUpgrade measures the migration of a large database from schema 14 to the newest, which a portal does before it starts.
// Limit: 30 s. That nothing is lost by it a test in package db shows.
func BenchmarkUpgrade(b *testing.B) {
	files := os.DirFS("../../db/migration")
	for range b.N {
		b.StopTimer()
		url := testkit.Schema14(b, files, listHosts, listVMs)
		b.StartTimer()
		begun := time.Now()
		if err := db.Migrate(b.Context(), url); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "upgrade-s")
		b.ReportMetric(30, "limit-s")
	}
}
