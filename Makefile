# Sediment. `make help` lists the targets.
#
# The core (csrc/ but csrc/lua/) is compiled once and linked into a module for each Lua; csrc/lua/ is compiled per Lua, since the two Lua ABIs
# differ. V=asan and V=tsan build the core and the C tests again, with a sanitizer, in a folder of their own.

CFLAGS ?= -O3 -g
WERROR ?= -Werror
WARN    = -Wall -Wextra -Wshadow -Wconversion $(WERROR) $(if $(V),,$(MAYBE))
PREFIX ?= /usr/local
V      ?=

# Codecs to build in, of those whose library is there: make CODECS='gzip zstd' leaves the others out.
CODECS ?= gzip snappy lz4 zstd

LUA54  ?= lua5.4
LUAJIT ?= luajit
LUA    ?= $(LUA54)

O := build$(if $(V),/$(V))
# At -O3 gcc guesses about variables that functions it has inlined set; the sanitizer builds, at -O1, keep that warning.
MAYBE   = $(if $(is_clang),,-Wno-maybe-uninitialized)
is_clang := $(shell $(CC) --version 2>/dev/null | grep -i clang)
SANITIZE_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_tsan  = -O1 -fsanitize=thread -fno-omit-frame-pointer $(if $(is_clang),,-Wno-tsan)
SANITIZE = $(SANITIZE_$(V))

find_codecs = $(shell CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' CFLAGS='$(CFLAGS)' LDFLAGS='$(LDFLAGS)' sh tools/find-codecs.sh $(1) build/codecs $(CODECS))
CODEC_FLAGS := $(if $(filter-out clean help deps env,$(or $(MAKECMDGOALS),all)),$(call find_codecs,flags))
CODEC_LIBS  := $(if $(CODEC_FLAGS),$(call find_codecs,libs))
LDLIBS      := $(CODEC_LIBS) -lpthread -ldl

COMPILE = $(CC) -std=gnu11 -D_GNU_SOURCE -Icsrc $(CPPFLAGS) $(WARN) $(CFLAGS) $(SANITIZE) -fPIC -fno-plt -fvisibility=hidden -MMD -MP
LINK    = $(CC) $(CFLAGS) $(SANITIZE) $(LDFLAGS)

CORE_SRC := $(filter-out csrc/lua/% csrc/kafka/% csrc/lua_kafka/%,$(sort $(wildcard csrc/*/*.c)))
LUA_SRC  := $(sort $(wildcard csrc/lua/*.c))
CORE_OBJ := $(CORE_SRC:csrc/%.c=$(O)/obj/%.o)
MODULES  := $(if $(LUA_SRC),build/5.4/sediment/core.so build/luajit/sediment/core.so)

# Stores on a Kafka cluster: a module of its own, built where librdkafka is. Of the rest it takes what needs no store.
HAS_KAFKA := $(if $(filter-out clean help deps env,$(or $(MAKECMDGOALS),all)),$(shell pkg-config --exists rdkafka 2>/dev/null && echo yes))
KAFKA_CFLAGS = $(shell pkg-config --cflags rdkafka)
KAFKA_LIBS   = $(shell pkg-config --libs rdkafka)
KAFKA_OBJ   := $(patsubst csrc/%.c,$(O)/obj/%.o,$(sort $(wildcard csrc/kafka/*.c csrc/base/*.c)) csrc/os/host.c csrc/format/record.c)
KAFKA_LUA   := $(sort $(wildcard csrc/lua_kafka/*.c)) $(addprefix csrc/lua/,args.c err.c gather.c library.c object.c range.c slices.c)
KAFKA_MODULES := $(if $(HAS_KAFKA),build/5.4/sediment/kafka/core.so build/luajit/sediment/kafka/core.so)

TEST_SRC   := $(sort $(wildcard spec/c/*_test.c))
HELPER_SRC := $(filter-out $(TEST_SRC),$(sort $(wildcard spec/c/*.c)))
TSAN_TESTS ?= $(sort $(wildcard spec/c/*thread*_test.c spec/c/log*_test.c))
C_TESTS    := $(patsubst spec/c/%.c,$(O)/spec/%,$(if $(filter tsan,$(V)),$(TSAN_TESTS),$(TEST_SRC)))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all help deps torture flips sweeps kills sabotage test tidy rockspec rockspec-check c-tests env demo bench kafka install uninstall clean list-c-tests list-kafka-sources
MAKEFLAGS += --no-print-directory

all: build/libsediment.a $(MODULES) $(KAFKA_MODULES)  ## the core and the module for both Luas, in build/ (the default)

help:  ## this list
	@sed -n 's/^\([a-z][a-z-]*\):.*  ## /  make \1\t/p' Makefile | expand -t 24 | sort

# ---- the core ----

$(O)/obj/%.o: csrc/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

$(O)/obj/format/codec_%.o: csrc/format/codec_%.c Makefile build/codecs/flags
	@mkdir -p $(@D)
	$(COMPILE) $(CODEC_FLAGS) -c -o $@ $<

build/codecs/flags: ;

$(O)/libsediment.a: $(CORE_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $(CORE_OBJ)

# ---- the modules ----

pkg_config = $(shell for n in $(2); do pkg-config $(1) $$n 2>/dev/null && break; done)
CFLAGS_5.4    = $(call pkg_config,--cflags,lua5.4 lua-5.4 lua54)
CFLAGS_luajit = $(call pkg_config,--cflags,luajit)

define module
build/$(1)/obj/%.o: csrc/lua/%.c Makefile
	@mkdir -p $$(@D)
	$$(COMPILE) $$(CFLAGS_$(1)) -c -o $$@ $$<

build/$(1)/sediment/core.so: $$(LUA_SRC:csrc/lua/%.c=build/$(1)/obj/%.o) $$(CORE_OBJ)
	@mkdir -p $$(@D)
	$$(LINK) -shared -o $$@ $$^ $$(LDLIBS)
endef
$(eval $(call module,5.4))
$(eval $(call module,luajit))

$(O)/obj/kafka/%.o: csrc/kafka/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) $(KAFKA_CFLAGS) -c -o $@ $<

define kafka_module
build/$(1)/obj/lua_kafka/%.o: csrc/lua_kafka/%.c Makefile
	@mkdir -p $$(@D)
	$$(COMPILE) $$(CFLAGS_$(1)) -c -o $$@ $$<

build/$(1)/sediment/kafka/core.so: $$(patsubst csrc/%.c,build/$(1)/obj/%.o,$$(KAFKA_LUA:csrc/lua/%=csrc/%)) $$(KAFKA_OBJ)
	@mkdir -p $$(@D)
	$$(LINK) -shared -o $$@ $$^ $$(KAFKA_LIBS) -lpthread -ldl
endef
$(eval $(call kafka_module,5.4))
$(eval $(call kafka_module,luajit))

# ---- C tests: each spec/c/*_test.c is a program; what else is in spec/c/ is linked in where it is used ----

$(O)/spec/obj/%.o: spec/c/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Ispec/c -Ispec -c -o $@ $<

$(O)/spec/libhelpers.a: $(HELPER_SRC:spec/c/%.c=$(O)/spec/obj/%.o)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(O)/spec/%_test: $(O)/spec/obj/%_test.o $(O)/spec/libhelpers.a $(O)/libsediment.a
	$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)

$(O)/spec/power_loss_test $(O)/spec/backup_test $(O)/spec/snapshot_test: $(O)/spec/sim/disk.o $(O)/spec/sim/disk_crash.o

# ---- crashes on a simulated disk ----

SIM_MAINS := torture flips errors syscalls
SYSCALLS  := open pread pwrite fdatasync fsync ftruncate posix_fallocate fstat stat futimens fcntl mmap msync rename link unlink mkdir rmdir opendir readdir
SIM_OBJ := $(patsubst spec/sim/%.c,$(O)/spec/sim/%.o,$(filter-out $(SIM_MAINS:%=spec/sim/%.c),$(sort $(wildcard spec/sim/*.c))))

$(O)/spec/sim/%.o: spec/sim/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Ispec -c -o $@ $<

$(O)/spec/command.o: spec/command.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Ispec -c -o $@ $<

$(SIM_MAINS:%=$(O)/%): $(O)/%: $(O)/spec/sim/%.o $(SIM_OBJ) $(O)/spec/command.o $(O)/libsediment.a
	$(LINK) $(SIM_FLAGS) -o $@ $^ $(LDLIBS)

$(O)/syscalls: SIM_FLAGS := $(SYSCALLS:%=-Wl,--wrap=%)

CHECK_NUMBERS = sh tools/check-numbers.sh SECONDS '$(SECONDS)' SEED '$(SEED)'
torture:  ## crashes at every system call of random histories (SECONDS=1200 SEED=1), on every processor
	@$(CHECK_NUMBERS)
	@sh tools/install-deps.sh build
	@$(MAKE) -s $(O)/torture
	@exec $(O)/torture --seconds $(or $(SECONDS),1200) --first $(SEED) --jobs $$(nproc 2> /dev/null || echo 2)

flips:  ## every bit of small stores changed, every file cut at every length (SEEDS="1 2 3")
	@sh tools/check-numbers.sh $(foreach seed,$(SEEDS),SEEDS '$(seed)')
	@sh tools/install-deps.sh build
	@$(MAKE) -s $(O)/flips
	@for seed in $(or $(SEEDS),1 2 3); do for closed in '' --unclean; do for opened in '' --readonly; do \
	  $(O)/flips --seed $$seed $$closed $$opened || exit 1; done; done; done

SWEEPS := build/errors build/syscalls build/5.4/memory build/luajit/memory
sweeps: flips  ## besides flips: every system call and every allocation failed once, each errno, both Luas
	@$(MAKE) -s $(SWEEPS)
	@build/errors --seeds 7
	@build/syscalls --seeds 6
	@build/5.4/memory
	@build/luajit/memory

# ---- a Lua program whose memory is short: build/5.4/memory, build/luajit/memory ----

LIBS_5.4    = $(call pkg_config,--libs,lua5.4 lua-5.4 lua54)
LIBS_luajit = $(call pkg_config,--libs,luajit)

define memory
build/$(1)/memory: spec/memory/memory.c spec/command.c $$(LUA_SRC:csrc/lua/%.c=build/$(1)/obj/%.o) $$(CORE_OBJ) Makefile
	$$(COMPILE) -Ispec $$(CFLAGS_$(1)) -o $$@ $$(filter %.c %.o,$$^) $$(LIBS_$(1)) $$(LDLIBS)
endef
$(eval $(call memory,5.4))
$(eval $(call memory,luajit))

# ---- processes killed at any moment, on real files ----

KILLS_OBJ := $(patsubst spec/kills/%.c,$(O)/spec/kills/%.o,$(sort $(wildcard spec/kills/*.c)))
KILLS_WRAP := -Wl,--wrap=sdm_shared_mutex_lock -Wl,--wrap=sdm_shared_mutex_try -Wl,--wrap=sdm_shared_mutex_unlock -Wl,--wrap=sdm_futex_wait

$(O)/spec/kills/%.o: spec/kills/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Ispec -c -o $@ $<

$(O)/kills: $(KILLS_OBJ) $(O)/spec/command.o $(O)/libsediment.a
	$(LINK) $(KILLS_WRAP) -o $@ $^ $(LDLIBS)

kills:  ## writers, readers, cleaners, followers and backups on one store, killed or stopped at any moment (SECONDS=60 SEED=1)
	@$(CHECK_NUMBERS)
	@sh tools/install-deps.sh build
	@$(MAKE) -s $(O)/kills
	@$(O)/kills --seconds $(or $(SECONDS),60) --seed $(SEED)

.PHONY: nginx
nginx:  ## a real nginx under load, reloaded, upgraded, its workers killed (SECONDS=60 SEED=1)
	@$(CHECK_NUMBERS)
	@sh tools/install-deps.sh
	@$(MAKE) -s all
	@eval "$$(sh tools/env.sh '$(LUA)')"; LUA_PATH="spec/?.lua;$$LUA_PATH" '$(LUA)' spec/nginx/soak.lua '$(or $(SECONDS),60)' '$(SEED)'

# ---- hostile bytes: each of FUZZ_TARGETS is a program of libFuzzer (V=fuzz), and one that replays files ----

FUZZ_TARGETS := batch codecs files config control partition store import
FUZZ_FOLDERS := control partition store import
FUZZ_HELPERS := $(addprefix $(O)/spec/,fuzz/mend.o fuzz/input.o fuzz/ask.o fuzz/use.o sim/disk.o sim/disk_crash.o)
SANITIZE_fuzz := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_WRAP := -Wl,--wrap=sdm_futex_wait

$(O)/spec/fuzz/%.o: spec/fuzz/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Ispec -c -o $@ $<

$(FUZZ_TARGETS:%=$(O)/replay-%): $(O)/replay-%: $(O)/spec/fuzz/%.o $(O)/spec/fuzz/replay.o $(FUZZ_HELPERS) $(O)/libsediment.a
	$(LINK) $(FUZZ_WRAP) -o $@ $^ $(LDLIBS)

$(FUZZ_TARGETS:%=$(O)/fuzz-%): $(O)/fuzz-%: $(O)/spec/fuzz/%.o $(FUZZ_HELPERS) $(O)/libsediment.a
	$(LINK) $(FUZZ_WRAP) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

$(FUZZ_FOLDERS:%=$(O)/fuzz-%): $(O)/spec/fuzz/mutate.o

$(O)/fuzz-seeds: $(O)/spec/fuzz/seeds.o $(FUZZ_HELPERS) $(O)/libsediment.a
	$(LINK) $(FUZZ_WRAP) -o $@ $^ $(LDLIBS)

.PHONY: fuzz fuzz-programs fuzz-seeds
fuzz-programs: $(FUZZ_TARGETS:%=$(O)/fuzz-%)

fuzz:  ## hostile files, with libFuzzer of clang (SECONDS=60 over all targets, SEED=random); what it finds is in build/fuzz/
	@$(CHECK_NUMBERS)
	@sh tools/install-deps.sh fuzz
	@$(MAKE) -s V=fuzz CC=clang WERROR= fuzz-programs
	@SEED='$(if $(filter file,$(origin SEED)),,$(SEED))' sh tools/fuzz.sh '$(or $(SECONDS),60)' $(FUZZ_TARGETS)

fuzz-seeds: $(O)/fuzz-seeds  ## writes the seeds in spec/fuzz/corpus/ anew, from spec/data/kafka/
	@sh spec/fuzz/seeds.sh $<

c-tests: $(C_TESTS)  ## the C test programs (V=asan, V=tsan: with that sanitizer)

list-c-tests:
	@printf '%s\n' $(C_TESTS)

# ---- checks ----

deps:  ## what building and testing needs: installed on Debian as root, listed elsewhere
	@sh tools/install-deps.sh && echo 'nothing is missing'

test:  ## everything: tidy checks, C tests plain and sanitized, specs on both Luas (ONLY=pattern narrows)
	@LUA54='$(LUA54)' LUAJIT='$(LUAJIT)' sh tools/run-tests.sh '$(ONLY)'

tidy:  ## the tidy checks alone
	@LUA54='$(LUA54)' LUAJIT='$(LUAJIT)' sh tools/run-tests.sh tidy/

sabotage:  ## plants the bugs of spec/sabotage in a copy, one at a time: the tests must notice each (ONLY=pattern narrows)
	@sh tools/install-deps.sh sabotage
	@LUA54='$(LUA54)' LUAJIT='$(LUAJIT)' sh tools/run-sabotage.sh '$(ONLY)'

rockspec:  ## writes the lists of files in the rockspecs anew
	@$(LUA54) tools/check-rockspec.lua --write

rockspec-check:  ## the rockspecs against the tree
	@$(LUA54) tools/check-rockspec.lua

list-kafka-sources:
	@printf '%s\n' $(sort $(KAFKA_OBJ:$(O)/obj/%.o=csrc/%.c) $(KAFKA_LUA))

# Kafka's own code and a broker as the judges (spec/kafka/README.md); needs a JDK 17, Maven, Python, kcat and librdkafka.
N    ?= 300
SEED ?= 1
kafka: all  ## random scripts through Kafka and through Sediment, then the broker tests (N=300 SEED=1 LUA=lua5.4: both Luas without it)
	@sh tools/check-numbers.sh N '$(N)' SEED '$(SEED)'
	@sh tools/install-deps.sh kafka
	@$(MAKE) -s all
	@LUA54='$(LUA54)' LUAJIT='$(LUAJIT)' LUA='$(if $(findstring command,$(origin LUA)),$(LUA))' sh tools/run-kafka.sh '$(N)' '$(SEED)'

# ---- using it ----

env:  ## shell lines for this tree's module: eval "$(make -s env)" (LUA=luajit for LuaJIT)
	@sh tools/env.sh '$(LUA)'

demo:  ## installs what is missing, builds, and runs examples/rates.lua
	@sh tools/install-deps.sh build
	@$(MAKE) -s all
	@eval "$$(sh tools/env.sh '$(LUA)')"; '$(LUA)' examples/rates.lua

build/bench/figures build/bench/processes: build/bench/%: bench/%.c bench/workload.c bench/floors.c $(wildcard bench/*.h) build/libsediment.a Makefile
	@mkdir -p $(@D)
	$(COMPILE) -o $@ $(filter %.c,$^) build/libsediment.a $(LDLIBS)

define bench_module
build/bench/$(1)/floor.so: bench/lua_floor.c bench/workload.c bench/floors.c $$(wildcard bench/*.h) build/libsediment.a Makefile
	@mkdir -p $$(@D)
	$$(COMPILE) $$(CFLAGS_$(1)) -shared -o $$@ $$(filter %.c,$$^) build/libsediment.a $$(LDLIBS)
endef
$(eval $(call bench_module,5.4))
$(eval $(call bench_module,luajit))

bench: all build/bench/figures build/bench/processes build/bench/5.4/floor.so build/bench/luajit/floor.so  ## the figures beside the machine's limits: make bench ARGS=W2
	@mkdir -p build/bench/data
	@build/bench/figures $(ARGS)
	@build/bench/processes
	@for v in 5.4 luajit; do lua=$$([ $$v = 5.4 ] && echo '$(LUA54)' || echo '$(LUAJIT)'); \
	  (eval "$$(sh tools/env.sh $$lua)"; LUA_CPATH="build/bench/$$v/?.so;$$LUA_CPATH" $$lua bench/figures.lua $(ARGS)) || exit 1; done
	@$(MAKE) bench-nginx

.PHONY: bench-nginx
bench-nginx: all  ## requests of a real nginx that keeps a record of each, by Sediment and by other ways (SECONDS=1 a turn)
	@$(CHECK_NUMBERS)
	@sh tools/install-deps.sh bench
	@mkdir -p build/bench/data
	@eval "$$(sh tools/env.sh '$(LUA)')"; LUA_PATH="bench/?.lua;spec/?.lua;$$LUA_PATH" '$(LUA)' bench/nginx.lua $(SECONDS)

.PHONY: bench-kafka
bench-kafka: all  ## appends to a Kafka broker, by Sediment and by kcat (COUNT=1000000 records, ROUNDS=3)
	@sh tools/check-numbers.sh COUNT '$(COUNT)' ROUNDS '$(ROUNDS)'
	@sh tools/install-deps.sh kafka
	@bench/kafka $(or $(COUNT),1000000) $(or $(ROUNDS),3)

# ---- installing: for both Luas, or for one with LUA=... on the command line ----

INSTALL_FOR := $(if $(findstring command,$(origin LUA)),$(if $(findstring jit,$(LUA)),luajit,5.4),5.4 luajit)
INSTALL_LUA = $(if $(filter 5.4,$(INSTALL_FOR)),$(LUA54),$(LUAJIT))
INCLUDES = $(filter csrc/%,$(shell $(CC) -MM -Icsrc csrc/sediment.h))
at = $(DESTDIR)$(PREFIX)
abi = $(if $(filter luajit,$(1)),5.1,$(1))

install: all  ## PREFIX=/usr/local DESTDIR=: module, Lua files and command for both Luas (or LUA=...), C header and library
	@[ -n '$(MODULES)' ] || { echo 'install: there is no module to install (csrc/lua/ is empty)' >&2; exit 1; }
	@set -e; $(foreach v,$(INSTALL_FOR), \
	  (cd lua && find . -name '*.lua') | while read -r f; do install -D -m 644 "lua/$$f" "$(at)/share/lua/$(call abi,$(v))/$$f"; done; \
	  install -D -m 755 build/$(v)/sediment/core.so '$(at)/lib/lua/$(call abi,$(v))/sediment/core.so'; \
  $(if $(HAS_KAFKA),install -D -m 755 build/$(v)/sediment/kafka/core.so '$(at)/lib/lua/$(call abi,$(v))/sediment/kafka/core.so';)) \
	for f in $(INCLUDES); do install -D -m 644 "$$f" "$(at)/include/sediment/$${f#csrc/}"; done; \
	install -D -m 644 build/libsediment.a '$(at)/lib/libsediment.a'; \
	for f in $(wildcard bin/*); do install -D -m 755 "$$f" "$(at)/$$f"; \
	  sed -i 's|SEDIMENT_LUA:-[^}]*|SEDIMENT_LUA:-$(INSTALL_LUA)|' "$(at)/$$f"; done
	@echo "installed under $(at)"

uninstall:  ## removes what install put under PREFIX
	rm -rf $(foreach v,5.4 5.1,'$(at)/share/lua/$(v)/sediment' '$(at)/share/lua/$(v)/resty/sediment.lua' '$(at)/share/lua/$(v)/resty/sediment' '$(at)/lib/lua/$(v)/sediment') \
	  '$(at)/include/sediment' '$(at)/lib/libsediment.a' $(foreach f,$(wildcard bin/*),'$(at)/$(f)')

clean:  ## removes build/
	rm -rf build

-include $(wildcard $(O)/obj/*/*.d $(O)/spec/*.d $(O)/spec/obj/*.d $(O)/spec/sim/*.d $(O)/spec/kills/*.d $(O)/spec/fuzz/*.d build/5.4/obj/*.d build/luajit/obj/*.d build/*/obj/lua_kafka/*.d build/bench/*.d)
