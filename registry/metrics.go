package registry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the counters of one handler, in a Prometheus registry of their own.
// distribution's metrics are global to the process, and registering them for a
// second handler panics.
type metrics struct {
	http.Handler
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sealer_registry_requests_total", Help: "Requests answered.",
		}, []string{"endpoint", "method", "code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sealer_registry_response_bytes_total", Help: "Bytes of response bodies.",
		}, []string{"endpoint"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sealer_registry_request_seconds", Help: "Time until the end of the response.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}, []string{"endpoint"}),
	}
	r := prometheus.NewRegistry()
	r.MustRegister(m.requests, m.bytes, m.seconds)
	m.Handler = promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) observe(endpoint, method string, status int, bytes int64, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default: // the client chooses the method: the number of series must stay small
		method = "other"
	}
	m.requests.WithLabelValues(endpoint, method, strconv.Itoa(status)).Inc()
	m.bytes.WithLabelValues(endpoint).Add(float64(bytes))
	m.seconds.WithLabelValues(endpoint).Observe(took.Seconds())
}
