//go:build linux

package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
	"quantix/internal/testkit/goals"
)

const (
	uploadBytes  = 2 << 30
	uploadGrowth = 32 << 20 // maximum growth of the portal's memory during the upload
	uploadShare  = 0.6      // minimum share of the plain server's rate
)

// BenchmarkUpload uploads one file of 2 GiB with curl in two ways: to a plain net/http server that writes it to the
// same disk, and through the portal and a relay to a real libvirt host, which also inspects the file. Each answers only
// when the storage has the complete file.
func BenchmarkUpload(b *testing.B) {
	base, token, _, pid := startLab(b)
	api, err := client.New(base, token, nil)
	if err != nil {
		b.Fatal(err)
	}
	pools, err := api.Pools(b.Context(), fleet.Query{Filter: "name:shared"})
	if err != nil || len(pools.Items) != 1 {
		b.Fatalf("pools: %v, %v", pools, err)
	}
	pool := pools.Items[0]
	file := filepath.Join(b.TempDir(), "image.raw")
	f, err := os.Create(file)
	if err == nil {
		_, err = f.WriteAt([]byte{0xeb, 0x63, 0x90}, 0)
	}
	if err == nil {
		err = f.Truncate(uploadBytes) // a sparse file, sent and written as zeros
	}
	if err != nil {
		b.Fatal(err)
	}
	f.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		to, err := os.Create(filepath.Join(pool.Spec.Path, "plain-bench.partial"))
		if err == nil {
			_, err = io.Copy(to, r.Body)
		}
		if err == nil {
			err = to.Sync()
		}
		if err != nil {
			b.Error(err)
		}
		to.Close()
		os.Remove(to.Name())
	}))
	defer plain.Close()
	b.ResetTimer()
	for range b.N {
		beside := curlUpload(b, file, plain.URL+"/image.raw", "")
		before, watch := residentOf(b, pid), watchResident(b, pid)
		ours := curlUpload(b, file, base+"/api/v1/pools/"+string(pool.ID)+"/uploads/bench.raw", token)
		grown := watch() - before
		removeVolume(b, base, token, pool.ID, "bench.raw")
		share := beside.Seconds() / ours.Seconds()
		rate := func(d time.Duration) float64 { return uploadBytes / (1 << 20) / d.Seconds() }
		b.ReportMetric(rate(ours), "MiB/s")
		b.ReportMetric(rate(beside), "plain-MiB/s")
		b.ReportMetric(float64(grown)/(1<<20), "grown-MiB")
		goals.Upload.Record(b, share >= uploadShare && grown <= uploadGrowth, fmt.Sprintf("%.0f MiB/s, the portal's memory +%d MiB", rate(ours), grown>>20),
			fmt.Sprintf("curl to a plain Go file server, same disk: %.0f MiB/s", rate(beside)), share)
	}
}

// curlUpload uploads the file with one request.
func curlUpload(b *testing.B, file, to, token string) time.Duration {
	b.Helper()
	began := time.Now()
	out, err := exec.CommandContext(b.Context(), "curl", "-sS", "--fail-with-body", "-T", file, "-H", "Authorization: Bearer "+token, to).CombinedOutput()
	if err != nil {
		b.Fatalf("curl: %v: %s", err, out)
	}
	return time.Since(began)
}

func removeVolume(b *testing.B, base, token string, pool fleet.PoolID, name string) {
	b.Helper()
	at := base + "/api/v1/pools/" + string(pool) + "/volumes/" + name + "?confirm=" + url.QueryEscape(name)
	pollUntil(b, "the volume to be deleted", func() bool {
		out, err := exec.CommandContext(b.Context(), "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "DELETE", "-H", "Authorization: Bearer "+token, at).Output()
		return err == nil && string(out) == "404"
	})
}

// residentOf returns the resident memory of a process in bytes.
func residentOf(b *testing.B, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Error(err)
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		b.Error(err)
	}
	return n << 10
}

// watchResident samples the resident memory of a process until peak is called, which returns the maximum.
func watchResident(b *testing.B, pid int) (peak func() int64) {
	stop, result := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for highest := int64(0); ; {
			highest = max(highest, residentOf(b, pid))
			select {
			case <-tick.C:
			case <-stop:
				result <- highest
				return
			}
		}
	}()
	return func() int64 { close(stop); return <-result }
}
