// SPDX-License-Identifier: GPL-2.0
/*
 * Makes NVMe controllers slow to let go, for the VM cases.
 *
 * The delay lies inside the nvme driver's own remove and shutdown callbacks, so it is spent where a real drive's is: under
 * the device lock, in the process that unbinds or reboots, with the controller still listed. The log lines are the bench's
 * ground truth for how many controllers were in flight at once.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>
#include <linux/version.h>

/* The driver's own words, as the running kernel's nvme_shutdown_ctrl or nvme_wait_ready prints them. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define COMPLAINT "Device not ready; aborting shutdown, CSTS=0x1\n"
#else
#define COMPLAINT "Device shutdown incomplete; abort shutdown\n"
#endif

static unsigned int default_ms;
module_param(default_ms, uint, 0644);
MODULE_PARM_DESC(default_ms, "what a controller that is not listed takes");

/* charp parameters end at 1024 bytes; 64 listed controllers need more. */
static char slow[4096], stuck[4096], complain[4096], reset[4096];
module_param_string(slow, slow, sizeof(slow), 0644);
MODULE_PARM_DESC(slow, "ADDR=MS,... what these controllers take");
module_param_string(stuck, stuck, sizeof(stuck), 0644);
MODULE_PARM_DESC(stuck, "ADDR,... whose callback never returns");
module_param_string(complain, complain, sizeof(complain), 0644);
MODULE_PARM_DESC(complain, "ADDR,... for which the driver's line of a shutdown that timed out is printed");

module_param_string(reset, reset, sizeof(reset), 0644);
MODULE_PARM_DESC(reset, "ADDR=MS,... how long a PCI reset of these controllers takes");

static struct pci_driver *nvme;
static const struct pci_error_handlers *real_handlers;
static struct pci_error_handlers handlers;
static void (*real_remove)(struct pci_dev *pdev);
static void (*real_shutdown)(struct pci_dev *pdev);
static atomic_t inflight = ATOMIC_INIT(0);

/* What follows ADDR in LIST, or NULL where it is not listed. */
static const char *listed(const char *list, const char *addr)
{
	size_t len = strlen(addr);
	const char *at = list;

	while ((at = strstr(at, addr))) {
		if ((at == list || at[-1] == ',') && strchr("=,\n", at[len]))
			return at + len;
		at += len;
	}
	return NULL;
}

static int complain_child(struct device *dev, void *unused)
{
	if (dev->class && !strcmp(dev->class->name, "nvme"))
		dev_err(dev, COMPLAINT);
	return 0;
}

static void wait_as_the_driver_does(const char *addr, unsigned int ms, bool forever)
{
	ktime_t end = ktime_add_ms(ktime_get(), ms);
	bool told = false;

	while (forever || ktime_before(ktime_get(), end)) {
		if (fatal_signal_pending(current) && !told) {
			pr_info("%s aborted pid=%d comm=%s\n", addr, current->pid, current->comm);
			told = true;
			if (!forever)
				return;
		}
		msleep(10);
	}
}

static void slowly(struct pci_dev *pdev, const char *what, void (*real)(struct pci_dev *pdev))
{
	const char *addr = pci_name(pdev), *rest;
	unsigned int ms = default_ms;
	bool forever, angry;
	ktime_t start = ktime_get();

	kernel_param_lock(THIS_MODULE);
	rest = listed(slow, addr);
	if (rest && *rest == '=')
		ms = simple_strtoul(rest + 1, NULL, 10);
	forever = listed(stuck, addr);
	angry = listed(complain, addr);
	kernel_param_unlock(THIS_MODULE);

	pr_info("%s %s begin inflight=%d pid=%d comm=%s\n", addr, what,
		atomic_inc_return(&inflight), current->pid, current->comm);
	wait_as_the_driver_does(addr, ms, forever);
	if (angry)
		device_for_each_child(&pdev->dev, NULL, complain_child);
	real(pdev);
	pr_info("%s %s end inflight=%d ms=%lld pid=%d\n", addr, what,
		atomic_dec_return(&inflight), ktime_ms_delta(ktime_get(), start), current->pid);
}

static void slow_remove(struct pci_dev *pdev)
{
	slowly(pdev, "remove", real_remove);
}

static void slow_shutdown(struct pci_dev *pdev)
{
	slowly(pdev, "shutdown", real_shutdown);
}

/* /sys/bus/pci/devices/ADDR/reset: the driver has set the state to "resetting" and stopped the queues. */
static void slow_reset_prepare(struct pci_dev *pdev)
{
	const char *rest;
	unsigned int ms = 0;

	real_handlers->reset_prepare(pdev);
	kernel_param_lock(THIS_MODULE);
	rest = listed(reset, pci_name(pdev));
	if (rest && *rest == '=')
		ms = simple_strtoul(rest + 1, NULL, 10);
	kernel_param_unlock(THIS_MODULE);
	pr_info("%s reset takes %u ms\n", pci_name(pdev), ms);
	msleep(ms);
}

static int __init slow_nvme_init(void)
{
	struct device_driver *found = driver_find("nvme", &pci_bus_type);

	if (!found)
		return -ENODEV;
	/* nvme must outlive the pointers put into it. */
	if (!try_module_get(found->owner))
		return -ENODEV;
	nvme = to_pci_driver(found);
	real_remove = nvme->remove;
	real_shutdown = nvme->shutdown;
	nvme->remove = slow_remove;
	nvme->shutdown = slow_shutdown;
	real_handlers = nvme->err_handler;
	handlers = *real_handlers;
	handlers.reset_prepare = slow_reset_prepare;
	nvme->err_handler = &handlers;
	pr_info("ready default_ms=%u\n", default_ms);
	return 0;
}

static void __exit slow_nvme_exit(void)
{
	nvme->remove = real_remove;
	nvme->shutdown = real_shutdown;
	nvme->err_handler = real_handlers;
	module_put(nvme->driver.owner);
}

module_init(slow_nvme_init);
module_exit(slow_nvme_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Makes NVMe controllers slow to let go (test bench only)");
