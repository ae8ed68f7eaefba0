package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/testkit"
	"quantix/internal/testkit/goals"
)

// BenchmarkUpgrade measures the migration of a large database from schema 14 to the newest schema. A portal runs this
// migration before it starts. Limit: 30 s. A test in package db checks that the migration loses no data.
func BenchmarkUpgrade(b *testing.B) {
	files := os.DirFS("../../db/migration")
	for range b.N {
		b.StopTimer()
		url := testkit.Schema14DatabaseURL(b, files, listHosts, listVMs)
		b.StartTimer()
		begun := time.Now()
		if err := db.Migrate(b.Context(), url); err != nil {
			b.Fatal(err)
		}
		took := time.Since(begun)
		b.ReportMetric(took.Seconds(), "upgrade-s")
		b.StopTimer()
		beside := timeVMsCopy(b, url)
		goals.Upgrade.Record(b, took <= 30*time.Second, fmt.Sprintf("%.1f s", took.Seconds()), fmt.Sprintf("one copy of the table of VMs %.1f s", beside.Seconds()), took.Seconds()/beside.Seconds())
		b.ReportMetric(30, "limit-s")
	}
}

// timeVMsCopy returns the time that PostgreSQL takes to copy the table vms.
func timeVMsCopy(b *testing.B, url string) time.Duration {
	b.Helper()
	pool, err := db.Open(b.Context(), url, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	began := time.Now()
	if _, err := pool.Exec(b.Context(), `CREATE TABLE bare AS TABLE vms`); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}
